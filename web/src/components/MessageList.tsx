import { List } from "@mantine/core";
import { Message } from "./Message";

/** Messages of the service, one below the other. */
export function MessageList({ messages }: { messages: readonly string[] }) {
  return (
    <List size="sm">
      {messages.map((message) => (
        <List.Item key={message}>
          <Message text={message} />
        </List.Item>
      ))}
    </List>
  );
}
