import { Button, Group, Popover, SegmentedControl, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconCalendar } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import { useZone } from "../../app/settings";
import {
  PRESETS,
  parseLength,
  type Range,
  rangeLabel,
  spaced,
  typedForm,
  typedRange,
  type Window,
} from "./range";

/** The time range of a search: presets, and a dialog for any other range. */
export function TimeRange({
  range,
  window,
  onChange,
}: {
  range: Range;
  /** The searched range, as the initial value of the dialog. */
  window: Window | undefined;
  onChange: (range: Range) => void;
}) {
  const [zone] = useZone();
  const [opened, { close, toggle }] = useDisclosure();
  const preset = range.kind === "last" ? (PRESETS.find((one) => one === range.text) ?? "") : "";
  return (
    <Group gap="xs" wrap="wrap">
      <SegmentedControl
        size="xs"
        aria-label="Time range"
        data={PRESETS.map((value) => ({ value, label: spaced(value) }))}
        value={preset}
        onChange={(text) => onChange({ kind: "last", text })}
      />
      <Popover
        opened={opened}
        onChange={close}
        position="bottom-start"
        shadow="md"
        trapFocus
        returnFocus
        width={300}
      >
        <Popover.Target>
          <Button
            size="xs"
            variant={preset === "" ? "light" : "default"}
            leftSection={<IconCalendar size={16} aria-hidden />}
            onClick={toggle}
            aria-label={preset === "" ? `Time range: ${rangeLabel(range, zone)}. Change it` : "Custom range"}
          >
            {preset === "" ? rangeLabel(range, zone) : "Custom range"}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <Typed
            range={range}
            window={window}
            onChange={(next) => {
              onChange(next);
              close();
            }}
          />
        </Popover.Dropdown>
      </Popover>
    </Group>
  );
}

function Typed({
  range,
  window,
  onChange,
}: {
  range: Range;
  window: Window | undefined;
  onChange: (range: Range) => void;
}) {
  const [zone] = useZone();
  const shown = range.kind === "absolute" ? range : window;
  const whole = (time: string | undefined) =>
    time === undefined ? "" : typedForm(time.replace(/\.\d+Z$/, "Z"), zone);
  const [last, setLast] = useState(range.kind === "last" ? range.text : "");
  const [from, setFrom] = useState(
    range.kind === "absolute" ? typedForm(range.from, zone) : whole(shown?.from),
  );
  const [to, setTo] = useState(range.kind === "absolute" ? typedForm(range.to, zone) : whole(shown?.to));
  const [problem, setProblem] = useState<{ last?: string; absolute?: string }>({});
  const takeLast = (event: FormEvent) => {
    event.preventDefault();
    const text = last.trim().toLowerCase().replace(/\s+/g, "");
    if (parseLength(text) === null) {
      setProblem({ last: "Write a length such as 90m, 36h or 3d." });
    } else {
      onChange({ kind: "last", text });
    }
  };
  const takeAbsolute = (event: FormEvent) => {
    event.preventDefault();
    const read = typedRange(from, to, zone, new Date());
    if ("problem" in read) {
      setProblem({ absolute: read.problem });
    } else {
      onChange(read);
    }
  };
  return (
    <Stack gap="md">
      <form onSubmit={takeLast}>
        <Group gap="xs" align="flex-end" wrap="nowrap">
          <TextInput
            label="Last …"
            placeholder="90m"
            value={last}
            onChange={(event) => setLast(event.currentTarget.value)}
            error={problem.last}
            data-autofocus
            style={{ flex: 1 }}
          />
          <Button type="submit" variant="default" mb={problem.last === undefined ? 0 : 20}>
            Apply
          </Button>
        </Group>
      </form>
      <form onSubmit={takeAbsolute}>
        <Stack gap="xs">
          <TextInput
            label={`From (${zone === "utc" ? "UTC" : "local time"})`}
            placeholder="2026-11-21 09:30"
            value={from}
            onChange={(event) => setFrom(event.currentTarget.value)}
          />
          <TextInput
            label={`To (${zone === "utc" ? "UTC" : "local time"})`}
            placeholder="now"
            value={to}
            onChange={(event) => setTo(event.currentTarget.value)}
            error={problem.absolute}
          />
          <Text size="xs" c="var(--tw-quiet)">
            09:30 is today; “now” and -2h work as well. The switch in the header sets the zone.
          </Text>
          <Button type="submit" variant="default">
            Apply
          </Button>
        </Stack>
      </form>
    </Stack>
  );
}
