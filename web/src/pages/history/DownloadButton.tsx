import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { notifyError } from "../../components/notifyError";
import { download } from "../../lib/download";
import { fetchYaml } from "./queries";

/** Downloads the access model as YAML: the current one, or that of a version. */
export function DownloadButton({ version, label }: { version: number | null; label: string }) {
  const fetchFile = useMutation({
    mutationFn: () => fetchYaml(version),
    onSuccess: ({ name, text }) => download([text], name, "application/yaml"),
    onError: (error) => notifyError("The file could not be downloaded", error),
  });
  return (
    <Button
      variant="default"
      leftSection={<IconDownload size={16} aria-hidden />}
      loading={fetchFile.isPending}
      onClick={() => fetchFile.mutate()}
    >
      {label}
    </Button>
  );
}
