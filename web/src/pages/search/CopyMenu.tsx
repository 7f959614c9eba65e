import { Button, Menu } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconCopy, IconLink, IconRobot, IconTerminal2 } from "@tabler/icons-react";
import { copyText } from "../../lib/useCopy";
import { absoluteLink, curlCommand, mcpCall } from "./copyFormats";
import { type Range, rangeLabel } from "./range";
import type { SearchRequest } from "./searchState";

/** Copies the search as a shell command, an MCP call, or a link. */
export function CopyMenu({ request, range }: { request: SearchRequest | undefined; range: Range }) {
  const copy = async (text: string, name: string) => {
    // The menu closes, so that the confirmation cannot be shown in it.
    if (await copyText(text)) {
      notifications.show({ message: `${name} copied` });
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
          disabled={request === undefined}
          onClick={() =>
            request !== undefined && void copy(curlCommand(request, window.location.origin), "Command")
          }
        >
          curl command (uses your API key)
        </Menu.Item>
        <Menu.Item
          leftSection={<IconRobot size={16} aria-hidden />}
          disabled={request === undefined}
          onClick={() => request !== undefined && void copy(mcpCall(request, range), "MCP call")}
        >
          MCP call, for an agent
        </Menu.Item>
        <Menu.Item
          leftSection={<IconLink size={16} aria-hidden />}
          disabled={request === undefined}
          onClick={() =>
            request !== undefined && void copy(absoluteLink(window.location.href, request), "Link")
          }
        >
          Link with this time range
        </Menu.Item>
        {range.kind === "last" && (
          <Menu.Item
            leftSection={<IconLink size={16} aria-hidden />}
            onClick={() => void copy(window.location.href, "Link")}
          >
            Link with relative time range ({rangeLabel(range, "utc")})
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
