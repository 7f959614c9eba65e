import { ActionIcon, Group, SegmentedControl, Text, TextInput, VisuallyHidden } from "@mantine/core";
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
import { useEffect, useRef, useState } from "react";
import { IconButton } from "../../components/IconButton";
import type { Trace } from "../../trace/model";
import type { KeyAction } from "./keys";
import classes from "./trace.module.css";
import type { TraceState, View } from "./useTraceState";

/** Button for the action of a key, which the tooltip names. */
function ToolButton({
  tooltip,
  icon: Icon,
  action,
  disabled = false,
  onAction,
}: {
  tooltip: string;
  icon: typeof IconArrowUp;
  action: KeyAction;
  disabled?: boolean;
  onAction: TraceState["performAction"];
}) {
  return (
    <IconButton
      tooltip={tooltip}
      label={tooltip.replace(/ \(.*\)$/, "")}
      variant="default"
      size={30}
      disabled={disabled}
      onClick={() => onAction(action, 1)}
    >
      <Icon size={16} aria-hidden />
    </IconButton>
  );
}

/** Views, text search, errors, levels and zoom. */
export function Toolbar({ trace, state }: { trace: Trace; state: TraceState }) {
  const { view, performAction } = state;
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
          <ToolButton
            tooltip="Previous error (E)"
            icon={IconArrowUp}
            action={{ type: "error", forward: false }}
            onAction={performAction}
          />
          <ToolButton
            tooltip="Next error (e)"
            icon={IconArrowDown}
            action={{ type: "error", forward: true }}
            onAction={performAction}
          />
        </Group>
      )}
      {view === "waterfall" && (
        <Group gap={2} wrap="nowrap">
          <ToolButton
            tooltip="Collapse one level (c)"
            icon={IconChevronsUp}
            action={{ type: "level", collapse: true }}
            onAction={performAction}
          />
          <ToolButton
            tooltip="Expand one level (x)"
            icon={IconChevronsDown}
            action={{ type: "level", collapse: false }}
            onAction={performAction}
          />
        </Group>
      )}
      {view !== "groups" && (
        <Group gap={2} wrap="nowrap">
          <ToolButton
            tooltip="Zoom in (+)"
            icon={IconZoomIn}
            action={{ type: "zoom", factor: 0.5 }}
            onAction={performAction}
          />
          <ToolButton
            tooltip="Zoom out (−)"
            icon={IconZoomOut}
            action={{ type: "zoom", factor: 2 }}
            disabled={state.isWholeTrace}
            onAction={performAction}
          />
          <ToolButton
            tooltip="Show the whole trace (0)"
            icon={IconZoomReset}
            action={{ type: "zoom", factor: Number.POSITIVE_INFINITY }}
            disabled={state.isWholeTrace}
            onAction={performAction}
          />
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
      <ToolButton
        tooltip="Previous match (N)"
        icon={IconArrowUp}
        action={{ type: "match", forward: false }}
        disabled={findResult.spans.length === 0}
        onAction={performAction}
      />
      <ToolButton
        tooltip="Next match (n)"
        icon={IconArrowDown}
        action={{ type: "match", forward: true }}
        disabled={findResult.spans.length === 0}
        onAction={performAction}
      />
    </Group>
  );
}
