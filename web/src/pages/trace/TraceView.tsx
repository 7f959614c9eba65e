import { useElementSize, useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import type { Api } from "../../api/client";
import type { Trace } from "../../trace/model";
import { FlameGraph } from "./FlameGraph";
import { Groups } from "./Groups";
import { Header } from "./Header";
import { actionOf, needsFocus } from "./keys";
import { Minimap } from "./Minimap";
import { Notices } from "./Notices";
import { Services } from "./Services";
import { SpanPanel } from "./SpanPanel";
import { Splitter } from "./Splitter";
import { Toolbar } from "./Toolbar";
import classes from "./trace.module.css";
import { useTraceState } from "./useTraceState";
import { rowHeightOf, Waterfall } from "./Waterfall";
import { mentionedSpan } from "./why/explanation";
import { useAccess } from "./why/useAccess";
import { WhyBadge } from "./why/WhyBadge";
import { WhyPanel } from "./why/WhyPanel";

/** Elements for text input or with their own keyboard handling. */
const OWN_KEYS_SELECTOR =
  "input, textarea, select, [contenteditable=true], [role=dialog], [role=menu], [role=tablist], [role=radiogroup]";

/** A trace with its views and the details of a span. */
export function TraceView({ trace, onReload }: { trace: Trace; onReload: () => void }) {
  const state = useTraceState(trace);
  const { performAction, view, openSpan, why, setWhy } = state;
  const { ownExplanation, matchingSpans } = useAccess(trace, state);
  const { ref: sizeRef, width, height } = useElementSize();
  const isWide = useMediaQuery("(min-width: 60em)", true, { getInitialValueInEffect: false });
  const [panelWidth, setPanelWidth] = useLocalStorage({
    key: "tracewarden-trace-panel",
    defaultValue: 460,
    getInitialValueInEffect: false,
  });

  const keyHandler = useRef<(event: KeyboardEvent) => void>(() => undefined);
  useEffect(() => {
    keyHandler.current = (event) => {
      const target = event.target instanceof Element ? event.target : null;
      const action = actionOf(event);
      if (action === null || event.defaultPrevented || target?.closest(OWN_KEYS_SELECTOR) != null) {
        return;
      }
      const isOnSpans = target?.closest("[data-spans]") != null || target === document.body;
      if (needsFocus(action) && (!isOnSpans || view === "groups")) {
        return;
      }
      event.preventDefault();
      performAction(action, Math.max(1, Math.floor(height / rowHeightOf(width)) - 3));
    };
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => keyHandler.current(event);
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

  const showSpan = (mention: Api["SpanMention"]): boolean => {
    const span = mentionedSpan(trace, mention);
    if (span === undefined) {
      return false;
    }
    if (view === "groups") {
      state.setView("waterfall");
    }
    if (!isWide) {
      // In a narrow window, the panel covers the spans.
      setWhy(null);
      document.querySelector("[data-spans]")?.scrollIntoView({ block: "center" });
    }
    state.goTo(span);
    return true;
  };
  const hasPanel = why !== null || openSpan >= 0;
  const unknownSpan = state.url.span !== undefined && openSpan < 0 ? state.url.span.slice(0, 40) : null;
  return (
    <div className={classes.page}>
      <Header trace={trace} onReload={onReload}>
        <WhyBadge
          explanation={ownExplanation}
          opened={why !== null}
          onToggle={() => setWhy(why === null ? "own" : null)}
        />
      </Header>
      <Notices faults={trace.faults} unknownSpan={unknownSpan} />
      <Services
        trace={trace}
        accessLabel={matchingSpans.spans.size > 0 ? matchingSpans.label : null}
        onFind={state.setFind}
      />
      <Toolbar trace={trace} state={state} />
      {view !== "groups" && <Minimap trace={trace} state={state} />}
      <div className={classes.main}>
        <div className={classes.view} ref={sizeRef}>
          {view === "groups" ? (
            <Groups trace={trace} findResult={state.findResult} onShow={state.openDetails} />
          ) : view === "flame" ? (
            <FlameGraph trace={trace} state={state} />
          ) : (
            <Waterfall
              trace={trace}
              state={state}
              matchingSpans={matchingSpans}
              width={width}
              height={height}
            />
          )}
        </div>
        {hasPanel && isWide && (
          <Splitter
            label="Width of the details"
            value={panelWidth}
            min={300}
            max={900}
            onChange={setPanelWidth}
            reverse
          />
        )}
        {hasPanel && (
          <div className={classes.panelBox} style={isWide ? { width: panelWidth } : {}}>
            {why === null ? (
              <SpanPanel
                key={openSpan}
                trace={trace}
                index={openSpan}
                state={state}
                matchingSpans={matchingSpans}
              />
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
                onShowSpan={showSpan}
              />
            )}
          </div>
        )}
      </div>
    </div>
  );
}
