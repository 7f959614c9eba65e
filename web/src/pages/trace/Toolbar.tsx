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
  const { view, act } = state;
  const tool = (label: string, icon: ReactNode, action: KeyAction, disabled = false) => (
    <Tooltip label={label}>
      <ActionIcon
        variant="default"
        size={30}
        aria-label={label.replace(/ \(.*\)$/, "")}
        disabled={disabled}
        onClick={() => act(action, 1)}
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
        onChange={(chosen) => state.setView(chosen as View)}
        data={[
          { value: "waterfall", label: "Waterfall" },
          { value: "flame", label: "Flame" },
          { value: "groups", label: "By operation" },
        ]}
      />
      <Finder state={state} />
      {trace.troubled.length > 0 && (
        <Group gap={2} wrap="nowrap">
          <Text span size="sm" c="var(--tw-error)" className={classes.errorCount}>
            <IconAlertCircle size={16} aria-hidden /> {trace.troubled.length.toLocaleString("en")}
            <VisuallyHidden> {trace.troubled.length === 1 ? "error" : "errors"}</VisuallyHidden>
          </Text>
          {tool("Previous error (E)", <IconArrowUp size={16} aria-hidden />, { do: "error", forward: false })}
          {tool("Next error (e)", <IconArrowDown size={16} aria-hidden />, { do: "error", forward: true })}
        </Group>
      )}
      {view === "waterfall" && (
        <Group gap={2} wrap="nowrap">
          {tool("Collapse one level (c)", <IconChevronsUp size={16} aria-hidden />, {
            do: "level",
            collapse: true,
          })}
          {tool("Expand one level (x)", <IconChevronsDown size={16} aria-hidden />, {
            do: "level",
            collapse: false,
          })}
        </Group>
      )}
      {view !== "groups" && (
        <Group gap={2} wrap="nowrap">
          {tool("Zoom in (+)", <IconZoomIn size={16} aria-hidden />, { do: "zoom", factor: 0.5 })}
          {tool(
            "Zoom out (−)",
            <IconZoomOut size={16} aria-hidden />,
            { do: "zoom", factor: 2 },
            state.whole,
          )}
          {tool(
            "Show the whole trace (0)",
            <IconZoomReset size={16} aria-hidden />,
            { do: "zoom", factor: Number.POSITIVE_INFINITY },
            state.whole,
          )}
        </Group>
      )}
    </div>
  );
}

function Finder({ state }: { state: TraceState }) {
  const { found, act, current } = state;
  const asked = state.url.find ?? "";
  const [text, setText] = useState(asked);
  const field = useRef<HTMLInputElement>(null);
  const { setFind } = state;
  useEffect(() => setText(asked), [asked]);
  // Enter is often pressed before the search is done, and then takes effect afterwards. `null` if no action is pending.
  const waiting = useRef<{ forward: boolean } | null>(null);
  const ready = found.done && found.text === asked;
  useEffect(() => {
    if (ready && waiting.current !== null) {
      const { forward } = waiting.current;
      waiting.current = null;
      act({ do: "match", forward }, 1);
    }
  }, [ready, act]);
  const place = found.marks[current] === 1 ? found.spans.indexOf(current) + 1 : 0;
  const count = found.spans.length.toLocaleString("en");
  const said =
    asked.trim() === ""
      ? ""
      : !ready
        ? "Searching…"
        : found.spans.length === 0
          ? "None"
          : place > 0
            ? `${place.toLocaleString("en")} of ${count}`
            : count;
  return (
    <Group gap={2} wrap="nowrap" className={classes.finder}>
      <TextInput
        ref={field}
        data-slash
        size="xs"
        aria-label="Find in this trace"
        placeholder="Find: name, service, attribute, key=value, id"
        leftSection={<IconSearch size={14} aria-hidden />}
        rightSectionWidth={asked === "" ? 0 : 88}
        rightSection={
          asked === "" ? undefined : (
            <Group gap={2} wrap="nowrap">
              <Text span size="xs" c="var(--tw-quiet)" role="status" className={classes.count}>
                {said}
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
          waiting.current = null;
          setText(event.currentTarget.value);
          setFind(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            event.preventDefault();
            waiting.current = { forward: !event.shiftKey };
            if (ready) {
              waiting.current = null;
              act({ do: "match", forward: !event.shiftKey }, 1);
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
          disabled={found.spans.length === 0}
          onClick={() => act({ do: "match", forward: false }, 1)}
        >
          <IconArrowUp size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Next match (n)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Next match"
          disabled={found.spans.length === 0}
          onClick={() => act({ do: "match", forward: true }, 1)}
        >
          <IconArrowDown size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}
