import { lookup } from "node:dns/promises";
import { BlockList } from "node:net";

/** Networks that are not of the public internet, by family; with those of IPv6 that embed addresses of IPv4. */
const PRIVATE = {
  4: blockList(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 " +
      "192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3",
    "ipv4",
  ),
  6: blockList("::/3 4000::/2 8000::/1 2001::/23 2001:db8::/32 2002::/16", "ipv6"),
};

/** Whether all addresses of a host are of the public internet, as the system resolves it now. */
export async function isPublic(host: string): Promise<boolean> {
  const addresses = await lookup(host.replace(/^\[|\]$/g, ""), { all: true });
  return addresses.every(({ address, family }) =>
    family === 6 ? !PRIVATE[6].check(address.split("%")[0]!, "ipv6") : !PRIVATE[4].check(address),
  );
}

function blockList(networks: string, family: "ipv4" | "ipv6"): BlockList {
  const list = new BlockList();
  for (const network of networks.split(" ")) {
    const [address, bits] = network.split("/") as [string, string];
    list.addSubnet(address, Number(bits), family);
  }
  return list;
}
