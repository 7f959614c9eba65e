import { Button, Group, Modal, NativeSelect, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import type { Api } from "../../api/client";
import { visible } from "../../lib/visible";
import { type Candidate, fieldKey, type LogicalType, TYPE_LABELS, typesOfMap } from "./fields";

const ANY: LogicalType[] = ["string", "number", "boolean", "string_array"];

/** Adds a map key that the sample does not contain. */
export function AddField({
  detail,
  maps,
  candidates,
  onAdd,
}: {
  detail: Api["TableDetail"] | null;
  /** Known maps and JSON columns. */
  maps: string[];
  candidates: Candidate[];
  onAdd: (field: { key: string; map: string; name: string }, type: LogicalType) => void;
}) {
  const [opened, { open, close }] = useDisclosure();
  const [chosen, setMap] = useState<string | null>(null);
  const [name, setName] = useState("");
  const [asked, setType] = useState<LogicalType | null>(null);
  const map = chosen ?? maps[0] ?? "";
  const known = candidates.find((candidate) => candidate.key === fieldKey(map, name));
  const types = known?.types ?? typesOfMap(detail, map) ?? ANY;
  const type = asked !== null && types.includes(asked) ? asked : (types[0] ?? "string");
  const isLong = [...name].length > 512;
  const add = () => {
    onAdd({ key: fieldKey(map, name), map, name }, type);
    setName("");
    setType(null);
    close();
  };
  return (
    <>
      <Button
        variant="default"
        size="xs"
        leftSection={<IconPlus size={14} aria-hidden />}
        onClick={open}
        disabled={maps.length === 0}
      >
        Add by hand
      </Button>
      <Modal opened={opened} onClose={close} title="Add a field by hand">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (name !== "" && !isLong) {
              add();
            }
          }}
        >
          <Stack gap="sm">
            <Text size="sm" c="var(--tw-quiet)">
              Only a sample of spans was read. Enter a key that the sample lacks, exactly as in the spans.
            </Text>
            <Select
              label="Map or JSON column"
              data={maps.map((value) => ({ value, label: visible(value) }))}
              value={map}
              onChange={setMap}
              allowDeselect={false}
            />
            <TextInput
              label="Key or path"
              data-autofocus
              placeholder="tenant.id"
              required
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={isLong ? "At most 512 characters." : undefined}
              description={
                name !== name.trim() ? "Begins or ends with a space, which is part of the key." : undefined
              }
            />
            <NativeSelect
              label="Type"
              value={type}
              onChange={(event) => setType(types.find((one) => one === event.currentTarget.value) ?? null)}
              data={types.map((value) => ({ value, label: TYPE_LABELS[value] }))}
            />
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              <Button type="submit" disabled={name === "" || isLong}>
                Add
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
}
