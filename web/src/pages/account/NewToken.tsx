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
        Keep it where secrets are kept. If it is lost, or seen by somebody else, revoke the key and create
        another.
      </Secret>
      <Snippet title="Try it" value={curlLine(origin, made.tools)} what="command" label="Copy the command">
        It takes the token from the variable TRACEWARDEN_API_KEY, so that it does not stay in the shell’s
        history. To set it, run <Code>read -rs TRACEWARDEN_API_KEY</Code>, paste the token and press Enter.
      </Snippet>
      {servesMcp(made.tools) && (
        <>
          <Snippet
            title="Give it to an MCP client"
            value={clientConfiguration(origin, made.token)}
            what="configuration"
            label="Copy the configuration"
          >
            With this among its servers, an agent or editor that speaks the Model Context Protocol reads
            traces by the key. It holds the token: keep the file to yourself.
          </Snippet>
          <Snippet
            title="Or to Claude Code"
            value={claudeCommand(origin, made.token)}
            what="Claude Code command"
            label="Copy the Claude Code command"
          >
            It holds the token, which may stay in the shell’s history.
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
