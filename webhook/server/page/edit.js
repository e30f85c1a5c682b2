// Applies the smallest edit to the text, and keeps its comments, order and quotes.

// In this schema every scalar is text and stays as it is written.
const AS_WRITTEN = { schema: "failsafe", uniqueKeys: false };
// Strings that no reader of YAML takes for something else.
const PLAIN = /^[A-Za-z_][\w./-]*$/;
const WORDS = /^(y|n|yes|no|on|off|true|false|null)$/i;

/** Returns the text after a JSON Patch to the object that begins at a line and column. Throws if there is none. */
function edited(text, line, column, patch) {
  const lines = new Libraries.LineCounter();
  const documents = Libraries.parseAllDocuments(text, { ...AS_WRITTEN, lineCounter: lines });
  const start = lines.lineStarts[line - 1] + [...text.split("\n")[line - 1]].slice(0, column - 1).join("").length;
  const index = documents.findIndex((one) => start < one.range[2]);
  const object = index < 0 ? undefined : objectAt(documents[index], start);
  if (object === undefined) throw new Error("the object is not where it was; check again");
  const quoted = text.trimStart().startsWith("{");
  for (const change of patch) changeIn(object, change, quoted);
  const from = index === 0 ? 0 : documents[index - 1].range[2];
  const changed = documents[index].toString(asWritten(text));
  const end = documents[index].range[2];
  return text.slice(0, from) + likeBefore(text.slice(from, end), changed) + text.slice(end);
}

/** Returns the changed text as JSON, with the same indentation, if it was JSON. */
function likeBefore(was, changed) {
  try {
    JSON.parse(was);
  } catch {
    return changed;
  }
  const indentation = /\n([ \t]+)"/.exec(was)?.[1] ?? 0;
  return `${JSON.stringify(JSON.parse(changed), null, indentation)}\n`;
}

function objectAt(document, start) {
  let found;
  Libraries.visit(document, {
    Map(_, node) {
      if (node.range[0] < start) return undefined;
      found = node;
      return Libraries.visit.BREAK;
    },
  });
  return found;
}

function changeIn(object, { op, path, value }, quoted) {
  const keys = path.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (op === "remove") {
    object.deleteIn(keys);
    return;
  }
  const old = object.getIn(keys, true);
  const made = nodeOf(value, quoted);
  if (old?.comment) made.comment = old.comment;
  const holder = keys.length > 1 ? object.getIn(keys.slice(0, -1), true) : object;
  if (holder instanceof Libraries.YAMLMap && !holder.has(keys.at(-1))) {
    holder.items.push(new Libraries.Pair(nodeOf(keys.at(-1), quoted), made));
  } else {
    object.setIn(keys, made);
  }
}

/** Returns a value as a part of a document. In JSON all strings are `quoted`. */
function nodeOf(value, quoted) {
  if (Array.isArray(value)) {
    const made = new Libraries.YAMLSeq();
    made.items.push(...value.map((one) => nodeOf(one, quoted)));
    return made;
  }
  if (value !== null && typeof value === "object") {
    const made = new Libraries.YAMLMap();
    made.items.push(...Object.entries(value).map(([key, one]) => new Libraries.Pair(nodeOf(key, quoted), nodeOf(one, quoted))));
    return made;
  }
  const made = new Libraries.Scalar(String(value));
  const plain = typeof value !== "string" || (!quoted && PLAIN.test(value) && !WORDS.test(value));
  made.type = plain ? Libraries.Scalar.PLAIN : Libraries.Scalar.QUOTE_DOUBLE;
  return made;
}

/** Returns how the text is written: lists with or without indentation, braces with or without spaces. */
function asWritten(text) {
  return {
    lineWidth: 0,
    indentSeq: !/^( *)(?:- )?[^\s#-][^\n]*:[ \t]*\n\1- /m.test(text),
    flowCollectionPadding: !/\{[^\s}]/.test(text),
  };
}
