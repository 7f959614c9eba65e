import { Kbd, Modal, Table, Text } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { IconHelp } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";
import { IconButton } from "../components/IconButton";

const SHORTCUTS: [string, [string, string][]][] = [
  [
    "Everywhere",
    [
      ["?", "show this help"],
      ["/", "go to the search field"],
      ["Esc", "close the open panel or dialog"],
    ],
  ],
  [
    "Search",
    [
      ["Enter in the search field", "use the first suggestion, add the condition, or open a pasted trace id"],
      ["Backspace", "remove the last condition, if the search field is empty"],
      ["↑ ↓ or k j", "previous, next result"],
      ["Enter", "open the trace"],
    ],
  ],
  [
    "Trace",
    [
      ["↑ ↓ or k j", "previous, next span"],
      ["← →", "collapse, expand; again: go to the parent, the first child"],
      ["Enter", "open the span's details"],
      ["e E", "next, previous error, with its details"],
      ["w", "show why you can see the trace"],
      ["n N", "next, previous match"],
      ["Home End, PageUp PageDown", "first, last, page"],
      ["c x", "collapse one level, expand one level"],
      ["+ − 0", "zoom in, zoom out, show the whole trace"],
      ["Shift ← →", "pan"],
    ],
  ],
  ["Audit", [["j k", "older, newer record, while one is open"]]],
];

/** Button and `?` shortcut for the list of keyboard shortcuts. */
export function HelpButton() {
  const [opened, { open, close }] = useDisclosure();
  const router = useRouter();
  const focusSearch = () => {
    // Pages with their own search field mark it with this attribute.
    const field = document.querySelector<HTMLInputElement>("[data-search-field]");
    if (field === null) {
      void router.navigate({ to: "/search" });
    } else {
      field.focus();
      field.select?.();
    }
  };
  // Whether a character needs Shift depends on the keyboard layout: on a German one, the slash does.
  useHotkeys([
    ["shift+?", open],
    ["?", open],
    ["/", focusSearch],
    ["shift+/", focusSearch],
  ]);
  return (
    <>
      <IconButton tooltip="Keyboard shortcuts (?)" label="Keyboard shortcuts" onClick={open}>
        <IconHelp size={18} aria-hidden />
      </IconButton>
      <Modal opened={opened} onClose={close} title="Keyboard shortcuts" size="lg">
        {SHORTCUTS.map(([where, keys]) => (
          <Table key={where} mb="md" verticalSpacing={4} captionSide="top">
            <Table.Caption style={{ textAlign: "left" }}>{where}</Table.Caption>
            <Table.Tbody>
              {keys.map(([key, meaning]) => (
                <Table.Tr key={`${key} ${meaning}`}>
                  <Table.Td w={220}>
                    <Kbd>{key}</Kbd>
                  </Table.Td>
                  <Table.Td>
                    <Text size="sm">{meaning}</Text>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        ))}
      </Modal>
    </>
  );
}
