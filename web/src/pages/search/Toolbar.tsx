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
  chart,
  onChart,
}: {
  sort: Sort;
  onSort: (sort: Sort) => void;
  columns: readonly Column[];
  onColumns: (columns: readonly Column[]) => void;
  chart: boolean;
  onChart: (chart: boolean) => void;
}) {
  return (
    <Group gap="xs">
      <NativeSelect
        size="xs"
        aria-label="Order of the loaded results"
        title="Sorts the results that are loaded"
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
            const shown = columns.includes(column);
            return (
              <Menu.Item
                key={column}
                role="menuitemcheckbox"
                aria-checked={shown}
                onClick={() =>
                  onColumns(ALL_COLUMNS.filter((one) => (one === column ? !shown : columns.includes(one))))
                }
                leftSection={<Checkbox.Indicator size="xs" checked={shown} />}
              >
                {COLUMNS[column].label}
              </Menu.Item>
            );
          })}
        </Menu.Dropdown>
      </Menu>
      <Button
        size="xs"
        variant={chart ? "light" : "default"}
        aria-pressed={chart}
        onClick={() => onChart(!chart)}
        leftSection={<IconChartDots size={16} aria-hidden />}
      >
        Chart
      </Button>
    </Group>
  );
}
