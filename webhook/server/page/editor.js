// The editor of manifests, with the findings at their lines.

// More marks than a person reads would make the editor slow.
const MOST_MARKS = 500;

const COLOURS = Libraries.HighlightStyle.define([
  { tag: Libraries.tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [Libraries.tags.propertyName, Libraries.tags.definition(Libraries.tags.propertyName)], color: "var(--accent)" },
  { tag: [Libraries.tags.string, Libraries.tags.content], color: "var(--ink)" },
  { tag: [Libraries.tags.meta, Libraries.tags.separator, Libraries.tags.punctuation], color: "var(--quiet)" },
]);

const LOOK = Libraries.EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--paper)", color: "var(--ink)" },
  ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)", maxWidth: "60ch" },
  ".cm-specialChar": { color: "var(--bad)" },
});

/** The editor in `place`. It calls `changed` after a change, and `checks` at Ctrl+Enter. */
class Editor {
  constructor(place, changed, checks) {
    // The editor adds style sheets. In a shadow root they need no exception in the page's Content-Security-Policy.
    const root = place.attachShadow({ mode: "open" });
    const extensions = [
      Libraries.lineNumbers(),
      Libraries.lintGutter(),
      Libraries.history(),
      Libraries.highlightSpecialChars({ addSpecialChars: HIDDEN }),
      Libraries.yaml(),
      Libraries.syntaxHighlighting(COLOURS),
      LOOK,
      Libraries.keymap.of([
        { key: "Mod-Enter", run: () => (checks(), true) },
        ...Libraries.lintKeymap,
        ...Libraries.defaultKeymap,
        ...Libraries.historyKeymap,
      ]),
      // Tab leaves the editor, as everywhere on the page.
      Libraries.EditorView.contentAttributes.of({ "aria-label": "Manifests, YAML or JSON", spellcheck: "false" }),
      Libraries.EditorView.updateListener.of((update) => update.docChanged && changed()),
    ];
    this.view = new Libraries.EditorView({
      state: Libraries.EditorState.create({ doc: "", extensions }),
      parent: root,
      root,
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  /** Replaces the text where it differs, so that the place and the history of the editor stay. */
  set text(text) {
    const old = this.text;
    let from = 0;
    let end = 0;
    const shorter = Math.min(old.length, text.length);
    while (from < shorter && old[from] === text[from]) from += 1;
    while (end < shorter - from && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
    this.view.dispatch({ changes: { from, to: old.length - end, insert: text.slice(from, text.length - end) } });
  }

  /** Makes the replacements of an edit, as one step of the history. */
  apply(edits) {
    const changes = edits.map((one) => ({
      from: this.position(one.line, one.column),
      to: this.position(one.endLine, one.endColumn),
      insert: one.text,
    }));
    this.view.dispatch({ changes, userEvent: "input.edit" });
  }

  /** Shows marks: each has a line, a column, a severity, a message and, unless it is the rest of the line, an end. */
  mark(marks) {
    const { doc } = this.view.state;
    const diagnostics = marks.slice(0, MOST_MARKS).map(({ line, column, endLine, endColumn, severity, message }) => {
      const from = this.position(line, column);
      const to = endLine ? this.position(endLine, endColumn) : doc.lineAt(from).to;
      return { from, to: Math.max(from, to), severity, message: visible(message) };
    });
    this.view.dispatch(Libraries.setDiagnostics(this.view.state, diagnostics));
  }

  /** Returns the index of a line and column of the server, which counts characters where a browser counts units. */
  position(number, column) {
    const { doc } = this.view.state;
    const line = doc.line(Math.min(Math.max(number, 1), doc.lines));
    return line.from + [...line.text].slice(0, Math.max(column, 1) - 1).join("").length;
  }

  /** Puts the cursor on a line. */
  show(number) {
    const { doc } = this.view.state;
    const line = doc.line(Math.min(Math.max(number, 1), doc.lines));
    const effects = Libraries.EditorView.scrollIntoView(line.from, { y: "center" });
    this.view.dispatch({ selection: { anchor: line.from, head: line.to }, effects });
    this.view.focus();
  }
}
