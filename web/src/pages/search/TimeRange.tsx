import { Button, Group, Popover, SegmentedControl, Stack, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconCalendar } from "@tabler/icons-react";
import { type FormEvent, useState } from "react";
import { useTimeZone } from "../../app/useTimeZone";
import { Secondary } from "../../components/Secondary";
import {
  inputText,
  PRESETS,
  parseLength,
  parseRange,
  type Range,
  type RangeErrors,
  rangeLabel,
  spaceUnits,
  type Window,
} from "./range";

/** The time range of a search: presets, and a dialog for any other range. */
export function TimeRange({
  range,
  isInvalid = false,
  window,
  onChange,
}: {
  range: Range;
  /** Whether the link's range is invalid; `range` is then the default. */
  isInvalid?: boolean;
  /** The searched range, as the initial value of the dialog. */
  window: Window | undefined;
  onChange: (range: Range) => void;
}) {
  const [zone] = useTimeZone();
  const [opened, { close, toggle }] = useDisclosure();
  const preset =
    range.kind === "last" && !isInvalid ? (PRESETS.find((candidate) => candidate === range.text) ?? "") : "";
  const isOther = preset === "" && !isInvalid;
  return (
    <Group gap="xs" wrap="wrap">
      <SegmentedControl
        size="xs"
        aria-label="Time range"
        data={PRESETS.map((value) => ({ value, label: spaceUnits(value) }))}
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
            variant={isOther ? "light" : "default"}
            leftSection={<IconCalendar size={16} aria-hidden />}
            onClick={toggle}
            aria-label={isOther ? `Time range: ${rangeLabel(range, zone)}. Change it` : "Custom range"}
          >
            {isOther ? rangeLabel(range, zone) : "Custom range"}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <CustomRangeForm
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

function CustomRangeForm({
  range,
  window,
  onChange,
}: {
  range: Range;
  window: Window | undefined;
  onChange: (range: Range) => void;
}) {
  const [zone] = useTimeZone();
  const initialRange = range.kind === "absolute" ? range : withoutFraction(window);
  const initialText = (time: string | undefined) => (time === undefined ? "" : inputText(time, zone));
  const [last, setLast] = useState(range.kind === "last" ? range.text : "");
  const [from, setFrom] = useState(initialText(initialRange?.from));
  const [to, setTo] = useState(initialText(initialRange?.to));
  const [errors, setErrors] = useState<{ last?: string } & RangeErrors>({});
  const submitLast = (event: FormEvent) => {
    event.preventDefault();
    const text = last.trim().toLowerCase().replace(/\s+/g, "");
    if (parseLength(text) === null) {
      setErrors({ last: "Enter a length such as 90m, 36h or 3d." });
    } else {
      onChange({ kind: "last", text });
    }
  };
  const submitAbsolute = (event: FormEvent) => {
    event.preventDefault();
    const parsed = parseRange(from, to, zone, new Date());
    if ("errors" in parsed) {
      setErrors(parsed.errors);
    } else {
      onChange(parsed);
    }
  };
  return (
    <Stack gap="md">
      <form onSubmit={submitLast}>
        <Group gap="xs" align="flex-end" wrap="nowrap">
          <TextInput
            label="Last …"
            placeholder="90m"
            value={last}
            onChange={(event) => setLast(event.currentTarget.value)}
            error={errors.last}
            data-autofocus
            style={{ flex: 1 }}
          />
          <Button type="submit" variant="default" mb={errors.last === undefined ? 0 : 20}>
            Apply
          </Button>
        </Group>
      </form>
      <form onSubmit={submitAbsolute}>
        <Stack gap="xs">
          <TextInput
            label={`From (${zone === "utc" ? "UTC" : "local time"})`}
            placeholder="2026-11-21 09:30"
            value={from}
            onChange={(event) => setFrom(event.currentTarget.value)}
            error={errors.from}
          />
          <TextInput
            label={`To (${zone === "utc" ? "UTC" : "local time"})`}
            placeholder="now"
            value={to}
            onChange={(event) => setTo(event.currentTarget.value)}
            error={errors.to}
          />
          <Secondary size="xs">
            09:30 means today; “now” and -2h work, too. The switch in the header sets the time zone.
          </Secondary>
          <Button type="submit" variant="default">
            Apply
          </Button>
        </Stack>
      </form>
    </Stack>
  );
}

/** Fractions of a second in a window that ends now are noise. */
function withoutFraction(window: Window | undefined): Window | undefined {
  const wholeSeconds = (time: string) => time.replace(/\.\d+Z$/, "Z");
  return window && { from: wholeSeconds(window.from), to: wholeSeconds(window.to) };
}
