/** What programs are told of the way out. Pure. */

/** The system's certificates, to which those of the host are added. */
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
const NOT_OUT = "localhost,127.0.0.1,::1,10.0.2.0/24";

export function networkEnvironment(proxyPort: number, trusts: boolean): Record<string, string> {
  const proxy = `http://127.0.0.1:${proxyPort}`;
  const certificates = [
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
  ];
  return {
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
    NO_PROXY: NOT_OUT,
    no_proxy: NOT_OUT,
    ...(trusts ? Object.fromEntries(certificates.map((name) => [name, BUNDLE])) : {}),
  };
}
