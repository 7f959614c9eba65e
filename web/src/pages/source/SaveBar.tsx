import { Button, Collapse, Group, Table, Text, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import type { ReactNode } from "react";
import { Chevron } from "../../components/Chevron";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import stickyBar from "../../components/stickyBar.module.css";
import { TableHead } from "../../components/TableHead";
import { countOf } from "../../lib/numbers";
import { describeMark, type FieldDifference } from "./fields";
import classes from "./source.module.css";
import type { FieldChanges } from "./useFieldChanges";

const KIND_LABELS = { marked: "newly marked", changed: "changed", unmarked: "no longer marked" } as const;

function summary(diff: FieldDifference[]): string {
  const parts = (["marked", "changed", "unmarked"] as const)
    .map((kind) => ({ kind, count: diff.filter((difference) => difference.kind === kind).length }))
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => `${count} ${KIND_LABELS[kind]}`);
  return `${countOf(diff.length, "change")} not saved: ${parts.join(", ")}`;
}

/** The unsaved changes, which are saved together. */
export function SaveBar({
  edit,
  save,
  children,
}: {
  edit: FieldChanges;
  /** The save button. */
  save: ReactNode;
  /** Further buttons, in front of it. */
  children?: ReactNode;
}) {
  const [opened, { toggle }] = useDisclosure();
  const { diff } = edit;
  const adoptsColumn = diff.some(
    ({ before, after }) => after?.column != null && after.column !== before?.column,
  );
  return (
    <section className={stickyBar.bar} aria-label="Changes of fields">
      {diff.length > 0 && (
        <>
          <Collapse expanded={opened}>
            <div className={classes.scroll} style={{ maxHeight: "40vh", overflowY: "auto" }}>
              <Table verticalSpacing={4} aria-label="Changes that are not saved">
                <TableHead columns={["Field", "Now", "After saving"]} />
                <Table.Tbody>
                  {diff.map(({ key, ref, before, after }) => (
                    <Table.Tr key={key}>
                      <Table.Td className={classes.name}>
                        <SanitizedText text={ref} maxLength={200} />
                      </Table.Td>
                      <Table.Td>
                        <SanitizedText text={describeMark(before)} />
                      </Table.Td>
                      <Table.Td>
                        <SanitizedText text={describeMark(after)} />
                      </Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </div>
          </Collapse>
          {adoptsColumn && (
            <Text size="sm" my="xs">
              Before policies read a column, the service compares it with the map in every row of the table.
              For a large table this takes minutes: keep this page open.
            </Text>
          )}
        </>
      )}
      <Group gap="sm" justify="space-between" mt={opened ? "xs" : 0}>
        {diff.length === 0 ? (
          <Secondary size="sm">{countOf(edit.stored.size, "field")} marked, no changes</Secondary>
        ) : (
          <UnstyledButton onClick={toggle} aria-expanded={opened} className={classes.sort} fz="sm">
            <Chevron opened={opened} size={16} />
            {summary(diff)}
          </UnstyledButton>
        )}
        <Group gap="sm">
          {children}
          {diff.length > 0 && (
            <Button variant="default" onClick={edit.discard} disabled={edit.isSaving}>
              Discard changes
            </Button>
          )}
          {save}
        </Group>
      </Group>
    </section>
  );
}
