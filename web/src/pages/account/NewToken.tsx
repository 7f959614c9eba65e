import { Button, Code, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Api } from "../../api/client";
import { claudeCommand, clientConfiguration } from "../../api/mcp";
import { CopyButton } from "../../components/CopyButton";
import { Secret } from "../../components/Secret";
import { curlCommand } from "./curl";
import { permitsMcp } from "./tools";

/** A new API key: its token, with instructions. */
export function NewToken({ createdKey, onDone }: { createdKey: Api["CreatedApiKey"]; onDone: () => void }) {
  const { origin } = window.location;
  return (
    <Stack gap="md">
      <Secret value={createdKey.token} name="token">
        Store it with your other secrets. If it is lost or disclosed, revoke the key and create another.
      </Secret>
      <Snippet
        title="Test the key"
        value={curlCommand(origin, createdKey.tools)}
        copyName="command"
        label="Copy the command"
      >
        The command reads the token from the variable TRACEWARDEN_API_KEY, so that the token does not stay in
        the shell’s history. To set it, run <Code>read -rs TRACEWARDEN_API_KEY</Code>, paste the token and
        press Enter.
      </Snippet>
      {permitsMcp(createdKey.tools) && (
        <>
          <Snippet
            title="Configure an MCP client"
            value={clientConfiguration(origin, createdKey.token)}
            copyName="configuration"
            label="Copy the configuration"
          >
            With this entry among its servers, an agent or editor that supports the Model Context Protocol
            reads traces with the key. The entry contains the token: keep the file private.
          </Snippet>
          <Snippet
            title="Configure Claude Code"
            value={claudeCommand(origin, createdKey.token)}
            copyName="Claude Code command"
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
  copyName,
  label,
  children,
}: {
  title: string;
  value: string;
  copyName: string;
  label: string;
  children: ReactNode;
}) {
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={600}>
          {title}
        </Text>
        <CopyButton value={value} name={copyName} label={label} />
      </Group>
      <Code
        block
        tabIndex={0}
        aria-label={title}
        style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}
      >
        {value}
      </Code>
      <Text size="xs" c="dimmed" mt={4}>
        {children}
      </Text>
    </div>
  );
}
