// What the page needs of its libraries. `scripts/page` builds them into webhook/server/page/libraries.js.
export { EditorState } from "@codemirror/state";
export { EditorView, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
export { yaml } from "@codemirror/lang-yaml";
export { tags } from "@lezer/highlight";
