import { Text } from "@mantine/core";
import { Message } from "./Message";

/** The service's description of a policy. */
export function PolicyDescription({ text }: { text: string }) {
  return (
    <Text component="div" size="sm" my={4} style={{ overflowWrap: "anywhere" }}>
      <Text span size="xs" c="dimmed" display="block">
        In words
      </Text>
      <Message text={text} />
    </Text>
  );
}
