import { Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconCopy, IconLink, IconRobot, IconTerminal2 } from "@tabler/icons-react";
import { copyText } from "../../lib/useCopy";
import { curlOf, mcpCallOf } from "./copyAs";
import type { Range } from "./range";
import type { Question } from "./state";

/** Copies the search as a shell command, an MCP call, or a link. */
export function CopyMenu({ question, range }: { question: Question | undefined; range: Range }) {
  const copy = async (text: string, what: string) => {
    // The menu closes, so that the confirmation cannot be shown in it.
    if (await copyText(text)) {
      notifications.show({ message: `${what} copied` });
    }
  };
  return (
    <Menu position="bottom-end" width={300}>
      <Menu.Target>
        <Button size="xs" variant="default" leftSection={<IconCopy size={16} aria-hidden />}>
          Share
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item
          leftSection={<IconTerminal2 size={16} aria-hidden />}
          disabled={question === undefined}
          onClick={() =>
            question !== undefined && void copy(curlOf(question, window.location.origin), "Command")
          }
        >
          curl command (uses your API key)
        </Menu.Item>
        <Menu.Item
          leftSection={<IconRobot size={16} aria-hidden />}
          disabled={question === undefined}
          onClick={() => question !== undefined && void copy(mcpCallOf(question, range), "MCP call")}
        >
          MCP call, for an agent
        </Menu.Item>
        <Menu.Item
          leftSection={<IconLink size={16} aria-hidden />}
          onClick={() => void copy(window.location.href, "Link")}
        >
          Link to this search
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
