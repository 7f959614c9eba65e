import { Modal, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { ErrorNotice } from "../../components/ErrorNotice";
import { SubmitButtons } from "../../components/SubmitButtons";
import { AttributesEditor } from "./AttributesEditor";
import { type AttributeRow, attributesOf, nameErrors } from "./attributes";
import { RolesSelect } from "./RolesSelect";
import { useViewAs } from "./viewAs";

/** Starts a preview with any roles and attributes, for a hypothetical user. */
export function ViewAsRoles({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [roles, setRoles] = useState<string[]>([]);
  const [rows, setRows] = useState<AttributeRow[]>([]);
  const [showErrors, setShowErrors] = useState(false);
  const viewAs = useViewAs();
  return (
    <Modal opened={opened} onClose={onClose} title="View as roles" size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setShowErrors(true);
          if (nameErrors(rows).size === 0) {
            viewAs.mutate({ roles, attributes: attributesOf(rows) });
          }
        }}
      >
        <Stack gap="md">
          <Text size="sm">
            Until you end the preview, you see the traces that a user with these roles and attributes would
            see, in this session only. You stay an administrator otherwise, and the audit log records your
            name.
          </Text>
          <RolesSelect value={roles} onChange={setRoles} />
          <AttributesEditor rows={rows} onChange={setRows} showErrors={showErrors} />
          {viewAs.isError && <ErrorNotice error={viewAs.error} />}
          <SubmitButtons label="View as these roles" busy={viewAs.isPending} onCancel={onClose} />
        </Stack>
      </form>
    </Modal>
  );
}
