// What of CodeMirror the console uses: build.mjs bundles it into codemirror.js.gz.
export { EditorState, Compartment } from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, placeholder, highlightActiveLine, drawSelection,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export {
  StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching,
} from "@codemirror/language";
export {
  autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus,
  acceptCompletion,
} from "@codemirror/autocomplete";
export { setDiagnostics, forEachDiagnostic } from "@codemirror/lint";
export { tags } from "@lezer/highlight";
