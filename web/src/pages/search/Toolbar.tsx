import { Button, Checkbox, Group, Menu, NativeSelect } from "@mantine/core";
import { IconChartDots, IconColumns } from "@tabler/icons-react";
import { ALL_COLUMNS, COLUMNS, type Column } from "./columns";
import { isSort, SORTS, type Sort } from "./sorting";

/** Display options of the loaded results. They never start a search. */
export function Toolbar({
  sort,
  onSort,
  columns,
  onColumns,
  showChart,
  onChart,
}: {
  sort: Sort;
  onSort: (sort: Sort) => void;
  columns: readonly Column[];
  onColumns: (columns: readonly Column[]) => void;
  showChart: boolean;
  onChart: (chart: boolean) => void;
}) {
  return (
    <Group gap="xs">
      <NativeSelect
        size="xs"
        aria-label="Order of the loaded results"
        title="Sorts the loaded results"
        data={Object.entries(SORTS).map(([value, label]) => ({ value, label }))}
        value={sort}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (isSort(value)) {
            onSort(value);
          }
        }}
      />
      <Menu closeOnItemClick={false} position="bottom-end">
        <Menu.Target>
          <Button size="xs" variant="default" leftSection={<IconColumns size={16} aria-hidden />}>
            Columns
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {ALL_COLUMNS.map((column) => {
            const isShown = columns.includes(column);
            return (
              <Menu.Item
                key={column}
                role="menuitemcheckbox"
                aria-checked={isShown}
                onClick={() =>
                  onColumns(
                    ALL_COLUMNS.filter((other) => (other === column ? !isShown : columns.includes(other))),
                  )
                }
                leftSection={<Checkbox.Indicator size="xs" checked={isShown} />}
              >
                {COLUMNS[column].label}
              </Menu.Item>
            );
          })}
        </Menu.Dropdown>
      </Menu>
      <Button
        size="xs"
        variant={showChart ? "light" : "default"}
        aria-pressed={showChart}
        onClick={() => onChart(!showChart)}
        leftSection={<IconChartDots size={16} aria-hidden />}
      >
        Chart
      </Button>
    </Group>
  );
}
