import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  completionStatus,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic as LintDiagnostic, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Annotation, EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightSpecialChars,
  keymap,
  placeholder as placeholderText,
  tooltips,
} from "@codemirror/view";
import { type RefObject, useEffect, useEffectEvent, useImperativeHandle, useRef } from "react";
import { plainMessage } from "../lib/messages";
import { HIDDEN_CHARACTERS } from "../lib/sanitize";
import classes from "./CodeEditor.module.css";
import { cel, celHighlightStyle } from "./cel";
import { completionSource, type Vocabulary } from "./completion";
import type { Diagnostic } from "./diagnostics";
import { rangeOf } from "./position";

/** Actions on the editor for other components. */
export type EditorHandle = { focus: () => void; reveal: (diagnostic: Diagnostic) => void };

/** Marks a text that the page has set. It is not an edit of the user, and is not reported to the page. */
const externalChange = Annotation.define<true>();

/** Renders an invisible or misleading character by its name, as on the pages. */
function renderHiddenCharacter(code: number, description: string | null): HTMLElement {
  const element = document.createElement("span");
  element.className = classes.hidden ?? "";
  element.textContent = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  element.title = description ?? "";
  return element;
}

const editorTheme = EditorView.theme({
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mantine-font-family-monospace)", padding: "8px 0", minHeight: "3.4em" },
  ".cm-line": { padding: "0 10px" },
  ".cm-scroller": { lineHeight: "1.55" },
  "&.cm-editor .cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  "&.cm-editor .cm-selectionBackground": { background: "light-dark(#cfe3f7, #24476b) !important" },
  "&.cm-editor .cm-placeholder": { color: "var(--tw-text-secondary)" },
  "&.cm-editor.cm-focused .cm-matchingBracket": {
    backgroundColor: "light-dark(#d3f0d6, #275a2c)",
    outline: "1px solid light-dark(#5a9e63, #6fbf78)",
  },
  "&.cm-editor.cm-focused .cm-nonmatchingBracket": { backgroundColor: "light-dark(#ffd8d8, #6b2222)" },
});

/** The text editor. It is a separate bundle, because only few pages need it. */
export default function CodeEditor({
  value,
  onChange,
  label,
  describedBy,
  invalid,
  placeholder,
  diagnostics,
  diagnosedText,
  vocabulary,
  handle,
}: {
  value: string;
  onChange: (value: string) => void;
  label: string;
  describedBy: string;
  invalid: boolean;
  placeholder: string;
  diagnostics: readonly Diagnostic[];
  /** The text that the diagnostics belong to, or `null` if it is unknown. */
  diagnosedText: string | null;
  vocabulary: Vocabulary;
  handle: RefObject<EditorHandle | null>;
}) {
  const container = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const vocabularyRef = useRef(vocabulary);
  const attributes = useRef({ label, describedBy, invalid });
  const notifyChange = useEffectEvent(onChange);
  const initial = useEffectEvent(() => ({ value, placeholder }));

  useEffect(() => {
    vocabularyRef.current = vocabulary;
  }, [vocabulary]);

  useEffect(() => {
    if (container.current === null) {
      return;
    }
    const { value, placeholder } = initial();
    const editor = new EditorView({
      parent: container.current,
      doc: value,
      extensions: [
        // Lines are counted as in the service. Other line ends in a text are kept unchanged.
        EditorState.lineSeparator.of("\n"),
        EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, "\n")),
        highlightSpecialChars({ addSpecialChars: HIDDEN_CHARACTERS, render: renderHiddenCharacter }),
        history(),
        drawSelection(),
        EditorView.lineWrapping,
        bracketMatching(),
        closeBrackets(),
        cel,
        syntaxHighlighting(celHighlightStyle),
        autocompletion({
          override: [completionSource(() => vocabularyRef.current)],
          tooltipClass: () => classes.completion ?? "",
          icons: false,
        }),
        // Rendered in the body, so that no scroll container clips them.
        tooltips({ parent: document.body }),
        placeholderText(placeholder),
        // Tab is not bound: it leaves the editor, as in every other field.
        keymap.of([
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...lintKeymap,
        ]),
        editorTheme,
        EditorView.contentAttributes.of((view) => ({
          "aria-label": attributes.current.label,
          "aria-describedby": attributes.current.describedBy,
          "aria-invalid": String(attributes.current.invalid),
          "aria-multiline": "true",
          spellcheck: "false",
          autocapitalize: "off",
          autocorrect: "off",
          // Escape closes the list of completions, but not the dialog around the editor.
          "data-mantine-stop-propagation": String(completionStatus(view.state) !== null),
        })),
        EditorView.updateListener.of((update) => {
          if (
            update.transactions.some(
              (transaction) => transaction.docChanged && transaction.annotation(externalChange) === undefined,
            )
          ) {
            notifyChange(update.state.doc.toString());
          }
        }),
      ],
    });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    const current = view.current;
    if (current !== null && current.state.doc.toString() !== value) {
      current.dispatch({
        changes: { from: 0, to: current.state.doc.length, insert: value },
        annotations: externalChange.of(true),
      });
    }
  }, [value]);

  useEffect(() => {
    attributes.current = { label, describedBy, invalid };
    view.current?.dispatch({});
  }, [label, describedBy, invalid]);

  useEffect(() => {
    const current = view.current;
    // Underlines move with the text until there are diagnostics for the new text.
    if (current !== null && diagnosedText !== null && current.state.doc.toString() === diagnosedText) {
      current.dispatch(
        setDiagnostics(
          current.state,
          diagnostics.map((diagnostic) => toLintDiagnostic(diagnosedText, diagnostic)),
        ),
      );
    }
  }, [diagnostics, diagnosedText]);

  useImperativeHandle(handle, () => ({
    focus: () => view.current?.focus(),
    reveal: (diagnostic) => {
      const current = view.current;
      if (current !== null) {
        const { from, to } = rangeOf(current.state.doc.toString(), diagnostic);
        current.dispatch({ selection: { anchor: from, head: to }, scrollIntoView: true });
        current.focus();
      }
    },
  }));

  return <div ref={container} className={classes.editor} data-invalid={invalid || undefined} />;
}

function toLintDiagnostic(
  text: string,
  { severity, message, hint, fixes, ...position }: Diagnostic,
): LintDiagnostic {
  return {
    ...rangeOf(text, position),
    severity,
    message: plainMessage(hint === undefined ? message : `${message}\n${hint}`),
    actions: fixes.map((fix) => ({
      name: fix.label,
      apply: (view) =>
        view.dispatch({
          changes: { from: 0, to: view.state.doc.length, insert: fix.text },
          userEvent: "input.fix",
        }),
    })),
  };
}
