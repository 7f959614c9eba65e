import { Popover, Stack, Text, UnstyledButton, VisuallyHidden } from "@mantine/core";
import { SanitizedText } from "../../components/SanitizedText";
import { sanitize } from "../../lib/sanitize";
import classes from "./source.module.css";

const INLINE_LENGTH = 40;
/** Maximum length of an example. Longer values can be read in their trace. */
const MAX_LENGTH = 10_000;

/** Some values of a field on one line, and in full in a popover. */
export function Examples({ fieldRef, values }: { fieldRef: string; values: string[] }) {
  const [first] = values;
  if (first === undefined) {
    return null;
  }
  return (
    <Popover width={420} position="bottom-start" shadow="md" withArrow>
      <Popover.Target>
        <UnstyledButton className={classes.examples}>
          <VisuallyHidden>Examples of {sanitize(fieldRef)}: </VisuallyHidden>
          {values.map((value, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: examples have no other identity
            <Text span inherit key={index} className={classes.name} size="xs">
              {index > 0 && ", "}
              {value === "" ? (
                "(empty)"
              ) : (
                <SanitizedText text={value.replace(/\s+/g, " ")} maxLength={INLINE_LENGTH} />
              )}
            </Text>
          ))}
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown>
        <Text size="xs" fw={600} mb="xs">
          Values found in the sample
        </Text>
        <Stack gap={6} mah={320} style={{ overflowY: "auto" }}>
          {values.map((value, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: examples have no other identity
            <div key={index} className={classes.example}>
              {value === "" ? "(empty)" : <SanitizedText text={value} maxLength={MAX_LENGTH} />}
            </div>
          ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
