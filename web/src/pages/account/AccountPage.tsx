import { PageTitle } from "../../components/PageTitle";

export function AccountPage() {
  return <PageTitle title="AccountPage" />;
}
