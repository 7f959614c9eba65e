import { ActionIcon, Kbd, Modal, Table, Text, Tooltip } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { IconHelp } from "@tabler/icons-react";
import { useRouter } from "@tanstack/react-router";

const KEYS: [string, [string, string][]][] = [
  [
    "Everywhere",
    [
      ["?", "this help"],
      ["/", "to the search, or to find within a trace"],
      ["Esc", "closes what is open"],
    ],
  ],
  [
    "The search",
    [
      ["Enter in the entry", "takes the condition"],
      ["Backspace", "takes the last condition back, in an empty entry"],
      ["↑ ↓ or k j", "result before, result after"],
      ["Enter", "opens the trace"],
    ],
  ],
  [
    "A trace",
    [
      ["↑ ↓ or k j", "span before, span after"],
      ["← →", "collapses and expands; once more goes to the parent or first child"],
      ["Enter", "opens the span's details"],
      ["e E", "next, previous error"],
      ["w", "why the trace is shown to you"],
      ["n N", "next, previous match of the text looked for"],
      ["Home End, PageUp PageDown", "far"],
      ["c x", "collapses one level more, one level less"],
      ["+ − 0", "zooms in, out, to the whole trace"],
      ["Shift ← →", "moves what is zoomed"],
    ],
  ],
  ["The audit", [["j k", "older record, newer record, while one is open"]]],
];

/** Button and `?` shortcut for the list of keyboard shortcuts. */
export function HelpButton() {
  const [opened, { open, close }] = useDisclosure();
  const router = useRouter();
  const toSearch = () => {
    // Pages with their own search field mark it with this attribute.
    const field = document.querySelector<HTMLInputElement>("[data-slash]");
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
    ["/", toSearch],
    ["shift+/", toSearch],
  ]);
  return (
    <>
      <Tooltip label="Keys (?)">
        <ActionIcon variant="subtle" color="gray" onClick={open} aria-label="Help on keys">
          <IconHelp size={18} aria-hidden />
        </ActionIcon>
      </Tooltip>
      <Modal opened={opened} onClose={close} title="Keys" size="lg">
        {KEYS.map(([where, keys]) => (
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
