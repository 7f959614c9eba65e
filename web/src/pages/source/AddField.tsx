import { Button, Modal, NativeSelect, Select, Stack, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import type { Api } from "../../api/client";
import { Secondary } from "../../components/Secondary";
import { SubmitButtons } from "../../components/SubmitButtons";
import { sanitize } from "../../lib/sanitize";
import { TYPE_LABELS } from "../../lib/types";
import { type Candidate, fieldKey, type LogicalType, typesOfMap } from "./fields";

const ANY_TYPE: LogicalType[] = ["string", "number", "boolean", "string_array"];

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
  const [selectedMap, setSelectedMap] = useState<string | null>(null);
  const [name, setName] = useState("");
  const [selectedType, setSelectedType] = useState<LogicalType | null>(null);
  const map = selectedMap ?? maps[0] ?? "";
  const existing = candidates.find((candidate) => candidate.key === fieldKey(map, name));
  const types = existing?.types ?? typesOfMap(detail, map) ?? ANY_TYPE;
  const type = selectedType !== null && types.includes(selectedType) ? selectedType : (types[0] ?? "string");
  const isTooLong = [...name].length > 512;
  const add = () => {
    onAdd({ key: fieldKey(map, name), map, name }, type);
    setName("");
    setSelectedType(null);
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
            if (name !== "" && !isTooLong) {
              add();
            }
          }}
        >
          <Stack gap="sm">
            <Secondary size="sm">
              Only a sample of spans was read. Enter a key that the sample lacks, exactly as in the spans.
            </Secondary>
            <Select
              label="Map or JSON column"
              data={maps.map((value) => ({ value, label: sanitize(value) }))}
              value={map}
              onChange={setSelectedMap}
              allowDeselect={false}
            />
            <TextInput
              label="Key or path"
              data-autofocus
              placeholder="tenant.id"
              required
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={isTooLong ? "At most 512 characters." : undefined}
              description={
                name !== name.trim() ? "Begins or ends with a space, which is part of the key." : undefined
              }
            />
            <NativeSelect
              label="Type"
              value={type}
              onChange={(event) =>
                setSelectedType(
                  types.find((candidateType) => candidateType === event.currentTarget.value) ?? null,
                )
              }
              data={types.map((value) => ({ value, label: TYPE_LABELS[value] }))}
            />
            <SubmitButtons label="Add" disabled={name === "" || isTooLong} onCancel={close} />
          </Stack>
        </form>
      </Modal>
    </>
  );
}
