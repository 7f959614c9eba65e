import { Group, Pagination, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";

/** A long list, one page at a time. */
export function PagedList<T>({
  items,
  pageSize,
  itemName,
  children,
}: {
  items: T[];
  pageSize: number;
  itemName: string;
  children: (items: T[]) => ReactNode;
}) {
  const [requestedPage, setRequestedPage] = useState(1);
  const pageCount = Math.max(1, Math.ceil(items.length / pageSize));
  const page = Math.min(requestedPage, pageCount);
  const from = (page - 1) * pageSize;
  return (
    <>
      {children(items.slice(from, from + pageSize))}
      {pageCount > 1 && (
        <Group justify="space-between" mt="sm">
          <Text size="sm" c="dimmed" aria-live="polite">
            {(from + 1).toLocaleString("en")} to{" "}
            {Math.min(from + pageSize, items.length).toLocaleString("en")} of{" "}
            {items.length.toLocaleString("en")} {itemName}
          </Text>
          <Pagination
            size="sm"
            total={pageCount}
            value={page}
            onChange={setRequestedPage}
            siblings={1}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(number) => ({ "aria-label": `Page ${number}` })}
          />
        </Group>
      )}
    </>
  );
}
