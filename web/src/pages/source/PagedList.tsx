import { Group, Pagination, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";

/** A long list, one page at a time. */
export function Paged<T>({
  items,
  size,
  what,
  children,
}: {
  items: T[];
  size: number;
  what: string;
  children: (items: T[]) => ReactNode;
}) {
  const [asked, setPage] = useState(1);
  const pages = Math.max(1, Math.ceil(items.length / size));
  const page = Math.min(asked, pages);
  const from = (page - 1) * size;
  return (
    <>
      {children(items.slice(from, from + size))}
      {pages > 1 && (
        <Group justify="space-between" mt="sm">
          <Text size="sm" c="var(--tw-quiet)" aria-live="polite">
            {(from + 1).toLocaleString("en")} to {Math.min(from + size, items.length).toLocaleString("en")} of{" "}
            {items.length.toLocaleString("en")} {what}
          </Text>
          <Pagination
            size="sm"
            total={pages}
            value={page}
            onChange={setPage}
            siblings={1}
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(number) => ({ "aria-label": `Page ${number}` })}
          />
        </Group>
      )}
    </>
  );
}
