// Whether Go trusts servers' certificates, and which proxies it uses: what Rollcall's clients are held to.
//
// Standard input is a JSON list of cases, standard output the list of verdicts. A case of a chain is given "" or why not,
// a case of a URL the proxy that the environment asks for.
package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
)

type question struct{ Chain, Bundle, Host, URL string }

func trusted(asked question) string {
	roots, beside := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(asked.Bundle))
	leaf, rest := pem.Decode([]byte(asked.Chain))
	beside.AppendCertsFromPEM(rest)
	certificate, err := x509.ParseCertificate(leaf.Bytes)
	if err == nil {
		_, err = certificate.Verify(x509.VerifyOptions{DNSName: asked.Host, Roots: roots, Intermediates: beside})
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func proxy(url string) string {
	asked, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	found, err := http.ProxyFromEnvironment(asked)
	if err != nil {
		return err.Error()
	}
	if found == nil {
		return ""
	}
	return found.String()
}

func main() {
	var asked []question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	verdicts := make([]string, 0, len(asked))
	for _, one := range asked {
		if one.URL != "" {
			verdicts = append(verdicts, proxy(one.URL))
		} else {
			verdicts = append(verdicts, trusted(one))
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		panic(err)
	}
}
