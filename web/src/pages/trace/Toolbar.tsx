import { ActionIcon, Group, SegmentedControl, Text, TextInput, Tooltip, VisuallyHidden } from "@mantine/core";
import {
  IconAlertCircle,
  IconArrowDown,
  IconArrowUp,
  IconChevronsDown,
  IconChevronsUp,
  IconSearch,
  IconX,
  IconZoomIn,
  IconZoomOut,
  IconZoomReset,
} from "@tabler/icons-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Trace } from "../../trace/model";
import type { KeyAction } from "./keys";
import classes from "./trace.module.css";
import type { TraceState, View } from "./useTraceState";

/** Views, text search, errors, levels and zoom. */
export function Toolbar({ trace, state }: { trace: Trace; state: TraceState }) {
  const { view, performAction } = state;
  const toolButton = (label: string, icon: ReactNode, action: KeyAction, disabled = false) => (
    <Tooltip label={label}>
      <ActionIcon
        variant="default"
        size={30}
        aria-label={label.replace(/ \(.*\)$/, "")}
        disabled={disabled}
        onClick={() => performAction(action, 1)}
      >
        {icon}
      </ActionIcon>
    </Tooltip>
  );
  return (
    <div className={classes.toolbar} role="toolbar" aria-label="Trace">
      <SegmentedControl
        size="xs"
        aria-label="View"
        value={view}
        onChange={(selected) => state.setView(selected as View)}
        data={[
          { value: "waterfall", label: "Waterfall" },
          { value: "flame", label: "Flame" },
          { value: "groups", label: "By operation" },
        ]}
      />
      <FindBar state={state} />
      {trace.errorSpans.length > 0 && (
        <Group gap={2} wrap="nowrap">
          <Text span size="sm" c="var(--tw-error)" className={classes.errorCount}>
            <IconAlertCircle size={16} aria-hidden /> {trace.errorSpans.length.toLocaleString("en")}
            <VisuallyHidden> {trace.errorSpans.length === 1 ? "error" : "errors"}</VisuallyHidden>
          </Text>
          {toolButton("Previous error (E)", <IconArrowUp size={16} aria-hidden />, {
            type: "error",
            forward: false,
          })}
          {toolButton("Next error (e)", <IconArrowDown size={16} aria-hidden />, {
            type: "error",
            forward: true,
          })}
        </Group>
      )}
      {view === "waterfall" && (
        <Group gap={2} wrap="nowrap">
          {toolButton("Collapse one level (c)", <IconChevronsUp size={16} aria-hidden />, {
            type: "level",
            collapse: true,
          })}
          {toolButton("Expand one level (x)", <IconChevronsDown size={16} aria-hidden />, {
            type: "level",
            collapse: false,
          })}
        </Group>
      )}
      {view !== "groups" && (
        <Group gap={2} wrap="nowrap">
          {toolButton("Zoom in (+)", <IconZoomIn size={16} aria-hidden />, { type: "zoom", factor: 0.5 })}
          {toolButton(
            "Zoom out (−)",
            <IconZoomOut size={16} aria-hidden />,
            { type: "zoom", factor: 2 },
            state.isWholeTrace,
          )}
          {toolButton(
            "Show the whole trace (0)",
            <IconZoomReset size={16} aria-hidden />,
            { type: "zoom", factor: Number.POSITIVE_INFINITY },
            state.isWholeTrace,
          )}
        </Group>
      )}
    </div>
  );
}

function FindBar({ state }: { state: TraceState }) {
  const { findResult, performAction, currentSpan } = state;
  const query = state.url.find ?? "";
  const [text, setText] = useState(query);
  const field = useRef<HTMLInputElement>(null);
  const { setFind } = state;
  useEffect(() => setText(query), [query]);
  // Enter is often pressed before the search is done, and then takes effect afterwards. `null` if no action is pending.
  const pendingMove = useRef<{ forward: boolean } | null>(null);
  const isReady = findResult.done && findResult.text === query;
  useEffect(() => {
    if (isReady && pendingMove.current !== null) {
      const { forward } = pendingMove.current;
      pendingMove.current = null;
      performAction({ type: "match", forward }, 1);
    }
  }, [isReady, performAction]);
  const matchNumber = findResult.marks[currentSpan] === 1 ? findResult.spans.indexOf(currentSpan) + 1 : 0;
  const count = findResult.spans.length.toLocaleString("en");
  const statusText =
    query.trim() === ""
      ? ""
      : !isReady
        ? "Searching…"
        : findResult.spans.length === 0
          ? "None"
          : matchNumber > 0
            ? `${matchNumber.toLocaleString("en")} of ${count}`
            : count;
  return (
    <Group gap={2} wrap="nowrap" className={classes.finder}>
      <TextInput
        ref={field}
        data-search-field
        size="xs"
        aria-label="Find in this trace"
        placeholder="Find: name, service, attribute, key=value, id"
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSectionWidth={query === "" ? 0 : 88}
        rightSection={
          query === "" ? undefined : (
            <Group gap={2} wrap="nowrap">
              <Text span size="xs" c="dimmed" role="status" className={classes.count}>
                {statusText}
              </Text>
              <ActionIcon
                size="xs"
                variant="subtle"
                color="gray"
                aria-label="Clear"
                onClick={() => setFind("")}
              >
                <IconX size={12} aria-hidden />
              </ActionIcon>
            </Group>
          )
        }
        value={text}
        onChange={(event) => {
          pendingMove.current = null;
          setText(event.currentTarget.value);
          setFind(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            event.preventDefault();
            pendingMove.current = { forward: !event.shiftKey };
            if (isReady) {
              pendingMove.current = null;
              performAction({ type: "match", forward: !event.shiftKey }, 1);
            }
          } else if (event.key === "Escape") {
            event.preventDefault();
            document.querySelector<HTMLElement>("[data-spans]")?.focus();
          }
        }}
      />
      <Tooltip label="Previous match (N)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Previous match"
          disabled={findResult.spans.length === 0}
          onClick={() => performAction({ type: "match", forward: false }, 1)}
        >
          <IconArrowUp size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Next match (n)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Next match"
          disabled={findResult.spans.length === 0}
          onClick={() => performAction({ type: "match", forward: true }, 1)}
        >
          <IconArrowDown size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}
