import { Button, Code, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Api } from "../../api/client";
import { claudeCommand, clientConfiguration } from "../../api/mcp";
import { Copy } from "../../components/Copy";
import { Secret } from "../../components/Secret";
import { curlLine } from "./curl";
import { servesMcp } from "./tools";

/** A new API key: its token, with instructions. */
export function NewToken({ made, onDone }: { made: Api["CreatedApiKey"]; onDone: () => void }) {
  const { origin } = window.location;
  return (
    <Stack gap="md">
      <Secret value={made.token} what="token">
        Store it with your other secrets. If it is lost or disclosed, revoke the key and create another.
      </Secret>
      <Snippet
        title="Test the key"
        value={curlLine(origin, made.tools)}
        what="command"
        label="Copy the command"
      >
        The command reads the token from the variable TRACEWARDEN_API_KEY, so that the token does not stay in
        the shell’s history. To set it, run <Code>read -rs TRACEWARDEN_API_KEY</Code>, paste the token and
        press Enter.
      </Snippet>
      {servesMcp(made.tools) && (
        <>
          <Snippet
            title="Configure an MCP client"
            value={clientConfiguration(origin, made.token)}
            what="configuration"
            label="Copy the configuration"
          >
            With this entry among its servers, an agent or editor that supports the Model Context Protocol
            reads traces with the key. The entry contains the token: keep the file private.
          </Snippet>
          <Snippet
            title="Configure Claude Code"
            value={claudeCommand(origin, made.token)}
            what="Claude Code command"
            label="Copy the Claude Code command"
          >
            The command contains the token, which may stay in the shell’s history.
          </Snippet>
        </>
      )}
      <Group justify="flex-end">
        <Button onClick={onDone} data-autofocus>
          Done
        </Button>
      </Group>
    </Stack>
  );
}

/** A text to copy, with an explanation. */
function Snippet({
  title,
  value,
  what,
  label,
  children,
}: {
  title: string;
  value: string;
  what: string;
  label: string;
  children: ReactNode;
}) {
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={600}>
          {title}
        </Text>
        <Copy value={value} what={what} label={label} />
      </Group>
      <Code
        block
        tabIndex={0}
        aria-label={title}
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
      >
        {value}
      </Code>
      <Text size="xs" c="var(--tw-quiet)" mt={4}>
        {children}
      </Text>
    </div>
  );
}
