import { Group, Text } from "@mantine/core";
import { CopyButton } from "../../components/CopyButton";
import { Secret } from "../../components/Secret";
import { welcomeText } from "./welcomeText";

/** A generated password, and instructions for the new user. */
export function InitialPassword({ username, password }: { username: string; password: string }) {
  const text = welcomeText(window.location.origin + import.meta.env.BASE_URL, username);
  return (
    <Secret value={password} name="password">
      <Text size="sm" mb="xs">
        Send it to the user, preferably by another channel than the text below. The user has to change it at
        the first sign-in.
      </Text>
      <Text
        component="pre"
        size="sm"
        m={0}
        mb="xs"
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere", fontFamily: "inherit" }}
      >
        {text}
      </Text>
      <Group gap="xs">
        <CopyButton value={text} name="text for the user" label="Copy the text" />
      </Group>
    </Secret>
  );
}
