import { Table, type TableProps } from "@mantine/core";

interface ScrolledTableProps extends TableProps {
  /** In pixels; below, the table scrolls sideways. */
  minWidth: number;
  /** Its name for screen readers. */
  label: string;
}

/**
 * A table of text alone. Since nothing in it takes the focus, what scrolls it does: otherwise the keyboard could not reach
 * columns that do not fit.
 */
export function ScrolledTable({ minWidth, label, children, ...table }: ScrolledTableProps) {
  return (
    <Table.ScrollContainer minWidth={minWidth} type="native" role="region" aria-label={label} tabIndex={0}>
      <Table verticalSpacing={4} aria-label={label} {...table}>
        {children}
      </Table>
    </Table.ScrollContainer>
  );
}
