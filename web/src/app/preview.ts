import { meQuery, queryClient } from "../api/queries";

/** After a preview began or ended: everything may look different with another access, and is let go of by `watchViewer`. */
export async function previewChanged(): Promise<void> {
  // Who is logged in stays known meanwhile, so that no page takes the reader for nobody.
  await queryClient.fetchQuery({ ...meQuery, staleTime: 0 });
}
