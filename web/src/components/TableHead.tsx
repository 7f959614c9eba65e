import { Table } from "@mantine/core";

/** Head of a table. The column without a name holds the actions of the rows. */
export function TableHead({ columns }: { columns: readonly string[] }) {
  return (
    <Table.Thead>
      <Table.Tr>
        {columns.map((name) => (
          <Table.Th key={name} scope="col" aria-label={name || "Actions"}>
            {name}
          </Table.Th>
        ))}
      </Table.Tr>
    </Table.Thead>
  );
}
