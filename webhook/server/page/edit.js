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
  for (const change of patch) changeIn(object, change);
  const from = index === 0 ? 0 : documents[index - 1].range[2];
  const changed = documents[index].toString(asWritten(text));
  return text.slice(0, from) + changed + text.slice(documents[index].range[2]);
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

function changeIn(object, { op, path, value }) {
  const keys = path.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (op === "remove") {
    object.deleteIn(keys);
    return;
  }
  const old = object.getIn(keys, true);
  const made = nodeOf(value);
  if (old?.comment) made.comment = old.comment;
  object.setIn(keys, made);
}

function nodeOf(value) {
  if (Array.isArray(value)) {
    const made = new Libraries.YAMLSeq();
    made.items.push(...value.map(nodeOf));
    return made;
  }
  if (value !== null && typeof value === "object") {
    const made = new Libraries.YAMLMap();
    made.items.push(...Object.entries(value).map(([key, one]) => new Libraries.Pair(nodeOf(key), nodeOf(one))));
    return made;
  }
  const made = new Libraries.Scalar(String(value));
  const plain = typeof value !== "string" || (PLAIN.test(value) && !WORDS.test(value));
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
