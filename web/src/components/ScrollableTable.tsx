import { Table, type TableProps } from "@mantine/core";

interface ScrollableTableProps extends TableProps {
  /** Minimum width in pixels. In less space, the table scrolls horizontally. */
  minWidth: number;
  /** Name for screen readers. */
  label: string;
}

/** A table with text only. Since it contains no focusable element, its scroll container is focusable: otherwise columns that do
 * not fit would not be reachable by keyboard. */
export function ScrollableTable({ minWidth, label, children, ...table }: ScrollableTableProps) {
  return (
    <Table.ScrollContainer minWidth={minWidth} type="native" role="region" aria-label={label} tabIndex={0}>
      <Table verticalSpacing={4} aria-label={label} {...table}>
        {children}
      </Table>
    </Table.ScrollContainer>
  );
}
