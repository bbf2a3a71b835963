package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
)

// tlsFiles are the files of --tls-ca, --tls-cert and --tls-key, all of PEM.
type tlsFiles struct{ ca, cert, key string }

// tlsEnv names the variable that stands for a flag of [tlsFiles].
func tlsEnv(flag string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flags are those that another command needs, for the files that the environment does not name.
func (t tlsFiles) flags() (text string) {
	for _, file := range [][2]string{{"tls-ca", t.ca}, {"tls-cert", t.cert}, {"tls-key", t.key}} {
		if file[1] != os.Getenv(tlsEnv(file[0])) {
			text += " --" + file[0] + " " + shellWord(file[1])
		}
	}
	return text
}

// load reads the files, nil if there are none. It is called before anything is sent, so that a
// mistake is not taken for a server that does not answer.
func (t tlsFiles) load() (*tls.Config, error) {
	if t == (tlsFiles{}) {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fail(exitUsage, "--tls-ca (or %s): %w; give a file of certificates in PEM", tlsEnv("tls-ca"), err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fail(exitUsage,
				`--tls-ca (or %s) is %q, which holds no certificate; give one in PEM, which has a line "-----BEGIN CERTIFICATE-----"`,
				tlsEnv("tls-ca"), t.ca)
		}
	}
	switch {
	case t.cert == "" && t.key == "":
		return conf, nil
	case t.key == "":
		return nil, fail(exitUsage, "--tls-cert is %q and --tls-key is missing; give the certificate's key too", t.cert)
	case t.cert == "":
		return nil, fail(exitUsage, "--tls-key is %q and --tls-cert is missing; give the key's certificate too", t.key)
	}
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fail(exitUsage, "--tls-cert is %q and --tls-key is %q: %w; give a certificate and its key, both in PEM",
			t.cert, t.key, err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return conf, nil
}

// adopt puts the files into what go-redis made of an address. TLS is asked for by the address alone:
// files that would be ignored in silence are a mistake that nobody would see.
func adopt(conf, files *tls.Config, a address) error {
	if files == nil {
		return nil
	}
	if conf == nil {
		return fail(exitUsage,
			"--redis (or %s) is %q, which is without TLS, and there is a --tls-ca or --tls-cert; write rediss://, or leave them out",
			redisEnv, a)
	}
	conf.RootCAs, conf.Certificates = files.RootCAs, files.Certificates
	return nil
}
