import { Popover, Stack, Text, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { Visible } from "../../components/Visible";
import { visible } from "../../lib/visible";
import classes from "./source.module.css";

const SHORT = 40;
/** Maximum length of an example. Longer values can be read in their trace. */
const LONG = 10_000;

/** Some values of a field on one line, and in full in a popover. */
export function Examples({ of, values }: { of: string; values: string[] }) {
  const [first] = values;
  if (first === undefined) {
    return null;
  }
  return (
    <Popover width={420} position="bottom-start" shadow="md" withArrow>
      <Popover.Target>
        <UnstyledButton className={classes.examples}>
          <VisuallyHidden>Examples of {visible(of)}: </VisuallyHidden>
          {values.map((value, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: examples have no other identity
            <Text span inherit key={place} className={classes.name} size="xs">
              {place > 0 && ", "}
              {value === "" ? "(empty)" : <Visible text={value.replace(/\s+/g, " ")} most={SHORT} />}
            </Text>
          ))}
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown>
        <Text size="xs" fw={600} mb="xs">
          Values found in the sample
        </Text>
        <Stack gap={6} mah={320} style={{ overflowY: "auto" }}>
          {values.map((value, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: examples have no other identity
            <div key={place} className={classes.example}>
              {value === "" ? "(empty)" : <Visible text={value} most={LONG} />}
            </div>
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
