import { useElementSize, useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import type { Api } from "../../api/client";
import type { Trace } from "../../trace/model";
import { Flame } from "./Flame";
import { Groups } from "./Groups";
import { Header } from "./Header";
import { actionOf, needsFocus } from "./keys";
import { Minimap } from "./Minimap";
import { Notices } from "./Notices";
import { Panel } from "./Panel";
import { Services } from "./Services";
import { Splitter } from "./Splitter";
import { Toolbar } from "./Toolbar";
import classes from "./trace.module.css";
import { useTraceState } from "./useTraceState";
import { Waterfall } from "./Waterfall";
import { mentionedSpan } from "./why/explanation";
import { useAccess } from "./why/useAccess";
import { WhyBadge } from "./why/WhyBadge";
import { WhyPanel } from "./why/WhyPanel";

/** Elements for text input or with their own keyboard handling. */
const OWN_KEYS =
  "input, textarea, select, [contenteditable=true], [role=dialog], [role=menu], [role=tablist], [role=radiogroup]";

/** A trace with its views and the details of a span. */
export function TraceView({ trace, onReload }: { trace: Trace; onReload: () => void }) {
  const state = useTraceState(trace);
  const { act, view, open, why, setWhy } = state;
  const { own, opening } = useAccess(trace, state);
  const { ref: box, width, height } = useElementSize();
  const wide = useMediaQuery("(min-width: 60em)", true, { getInitialValueInEffect: false });
  const [panelWidth, setPanelWidth] = useLocalStorage({
    key: "tracewarden-trace-panel",
    defaultValue: 460,
    getInitialValueInEffect: false,
  });

  const keys = useRef<(event: KeyboardEvent) => void>(() => undefined);
  useEffect(() => {
    keys.current = (event) => {
      const target = event.target instanceof Element ? event.target : null;
      const action = actionOf(event);
      if (action === null || event.defaultPrevented || target?.closest(OWN_KEYS) != null) {
        return;
      }
      const onSpans = target?.closest("[data-spans]") != null || target === document.body;
      if (needsFocus(action) && (!onSpans || view === "groups")) {
        return;
      }
      event.preventDefault();
      act(action, Math.max(1, Math.floor(height / 26) - 3));
    };
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => keys.current(event);
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, []);

  useEffect(() => {
    // After two frames, the first rows are on the screen, not only in the document.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => performance.mark("trace-usable"));
    });
    return () => cancelAnimationFrame(frame);
  }, []);

  const show = (mention: Api["SpanMention"]): boolean => {
    const span = mentionedSpan(trace, mention);
    if (span === undefined) {
      return false;
    }
    if (view === "groups") {
      state.setView("waterfall");
    }
    if (!wide) {
      // In a narrow window, the panel covers the spans.
      setWhy(null);
      document.querySelector("[data-spans]")?.scrollIntoView({ block: "center" });
    }
    state.go(span);
    return true;
  };
  const beside = why !== null || open >= 0;
  const unknownSpan = state.url.span !== undefined && open < 0 ? state.url.span.slice(0, 40) : null;
  return (
    <div className={classes.page}>
      <Header trace={trace} onReload={onReload}>
        <WhyBadge
          explanation={own}
          opened={why !== null}
          onToggle={() => setWhy(why === null ? "own" : null)}
        />
      </Header>
      <Notices faults={trace.faults} unknownSpan={unknownSpan} />
      <Services trace={trace} onFind={state.setFind} />
      <Toolbar trace={trace} state={state} />
      {view !== "groups" && <Minimap trace={trace} state={state} />}
      <div className={classes.main}>
        <div className={classes.view} ref={box}>
          {view === "groups" ? (
            <Groups trace={trace} onShow={state.openDetails} />
          ) : view === "flame" ? (
            <Flame trace={trace} state={state} />
          ) : (
            <Waterfall trace={trace} state={state} opening={opening} width={width} height={height} />
          )}
        </div>
        {beside && wide && (
          <Splitter
            label="Width of the details"
            value={panelWidth}
            least={300}
            most={900}
            onChange={setPanelWidth}
            reverse
          />
        )}
        {beside && (
          <div className={classes.panelBox} style={wide ? { width: panelWidth } : {}}>
            {why === null ? (
              <Panel key={open} trace={trace} index={open} state={state} opening={opening} />
            ) : (
              <WhyPanel
                id={trace.id}
                why={why}
                user={state.url.user}
                onChange={setWhy}
                onClose={() => {
                  setWhy(null);
                  document.querySelector<HTMLElement>("[data-why]")?.focus();
                }}
                onGo={show}
              />
            )}
          </div>
        )}
      </div>
    </div>
  );
}
