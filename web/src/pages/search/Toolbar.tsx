import { Button, Checkbox, Group, Menu, NativeSelect, SegmentedControl } from "@mantine/core";
import { IconChartDots, IconColumns } from "@tabler/icons-react";
import { ALL_COLUMNS, COLUMNS, type Column } from "./columns";
import { isOrder, ORDERS, type Order } from "./order";

/** View of the results. */
export type ResultsView = "traces" | "operations";

/** The order of the results, and how they are shown. */
export function Toolbar({
  view,
  onView,
  order,
  onOrder,
  columns,
  onColumns,
  showChart,
  onChart,
}: {
  /** `null` if there is only the view of traces. */
  view: ResultsView | null;
  onView: (view: ResultsView) => void;
  order: Order;
  onOrder: (order: Order) => void;
  columns: readonly Column[];
  onColumns: (columns: readonly Column[]) => void;
  showChart: boolean;
  onChart: (chart: boolean) => void;
}) {
  return (
    <Group gap="xs">
      {view !== null && (
        <SegmentedControl
          size="xs"
          aria-label="Results"
          data={[
            { value: "traces", label: "Traces" },
            { value: "operations", label: "Operations" },
          ]}
          value={view}
          onChange={(next) => onView(next === "operations" ? next : "traces")}
        />
      )}
      {view !== "operations" && <TableControls {...{ order, onOrder, columns, onColumns }} />}
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

/** Order and columns of the traces. */
function TableControls({
  order,
  onOrder,
  columns,
  onColumns,
}: {
  order: Order;
  onOrder: (order: Order) => void;
  columns: readonly Column[];
  onColumns: (columns: readonly Column[]) => void;
}) {
  return (
    <>
      <NativeSelect
        size="xs"
        aria-label="Order of the results"
        title="Orders all matching traces of the time range"
        data={Object.entries(ORDERS).map(([value, { label }]) => ({ value, label }))}
        value={order}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (isOrder(value)) {
            onOrder(value);
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
    </>
  );
}
