package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

const (
	redisEnv     = "HOLDFAST_REDIS"
	redisDefault = "redis://127.0.0.1:6379/0"
	// redisForms is the part of the help that says what --redis takes.
	redisForms = `Redis servers:
  redis://[user:password@]host:port[/db]
      one server; rediss:// for TLS, unix:///path for a socket
  redis+cluster://host:port,host:port
      a Cluster, by some of its nodes (redis://host,host is the same)
  redis+sentinel://host:port,host:port/master
      behind Sentinel; /master/db for another database. The data servers' user and password follow, as in
      /master?username=u&password=p; those before the hosts, as in redis+sentinel://u:p@host, are the Sentinels'
Further options may follow, as in ?read_timeout=1s. rediss:// takes the certificates of --tls-ca, --tls-cert and
--tls-key; rediss+cluster and rediss+sentinel are TLS too.

Other users of this machine see the arguments of a command (ps). Put a URL with a password into $HOLDFAST_REDIS.`
)

// address is where Redis is, as --redis has it, with passwords. Whatever prints an address prints
// String, which shows none: the text is behind a function, where neither fmt nor encoding/json looks.
type address struct{ text func() string }

func newAddress(text string) address { return address{func() string { return text }} }

// reveal is the whole text, for those who connect.
func (a address) reveal() string {
	if a.text == nil {
		return ""
	}
	return a.text()
}

// secret reports whether there is something that String does not show.
func (a address) secret() bool { return a.String() != a.reveal() }

func (a address) same(b address) bool { return a.reveal() == b.reveal() }

// tls reports whether the address asks for TLS.
func (a address) tls() bool { return strings.HasPrefix(a.reveal(), "rediss") }

// sentinel reports whether the address is one of Sentinels.
func (a address) sentinel() bool {
	scheme, _, _ := strings.Cut(a.reveal(), "://")
	return strings.HasSuffix(scheme, "+sentinel")
}

// hidden stands for what is not shown.
const hidden = "***"

// String shows an address that has nothing but what [target] knows to be harmless, with *** in the place of
// its user and password. Of any other it shows the scheme alone.
func (a address) String() string {
	t, err := splitAddress(a.reveal())
	if scheme := schemeForm.FindString(a.reveal()); scheme == a.reveal() { // there is nothing to hide
		return scheme
	}
	if err != nil {
		return schemeForm.FindString(a.reveal()) + hidden
	}
	return t.shown
}

// example is an address of the same kind.
func (a address) example() string {
	scheme, _, _ := strings.Cut(schemeForm.FindString(a.reveal()), "://")
	switch {
	case scheme == "unix":
		return "unix:///run/redis.sock"
	case a.sentinel():
		return scheme + "://host:26379/mymaster"
	case strings.HasSuffix(scheme, "+cluster"):
		return scheme + "://host:6379,host:6379"
	}
	return cmp.Or(scheme, "redis") + "://host:6379"
}

// Format prints String, by whatever verb.
func (a address) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), a.String())
}

// MarshalText makes JSON of an address, and a log's value, its String.
func (a address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// addressFlag is --redis. Each use adds an address; the first one replaces those of the environment.
type addressFlag struct {
	all   *[]address
	given bool
}

// Set is called by the parser. It never fails, as the parser would repeat the text.
func (f *addressFlag) Set(text string) error {
	if !f.given {
		f.given, *f.all = true, nil
	}
	*f.all = append(*f.all, newAddress(text))
	return nil
}

func (f *addressFlag) String() string {
	if f.all == nil {
		return ""
	}
	return shownAddresses(*f.all)
}

func (f *addressFlag) revealed() (texts []string) {
	for _, a := range *f.all {
		texts = append(texts, a.reveal())
	}
	return texts
}

// Type is what the help shows for the value.
func (f *addressFlag) Type() string { return "URL" }

func shownAddresses(all []address) string {
	shown := make([]string, len(all))
	for i, a := range all {
		shown[i] = a.String()
	}
	return strings.Join(shown, ", ")
}

// noAddress refuses an address that stands where names do, which are printed.
func noAddress(names ...string) error {
	if slices.ContainsFunc(names, schemeForm.MatchString) {
		return fail(exitUsage, "an address of Redis stands where none belongs; write --redis before it")
	}
	return nil
}

// harmless is an error about an address that has nothing of it. To look for the address in it would do damage: what is
// wrong may be a part of the advice, as redis:// is.
type harmless struct{ error }

// withoutSecrets is a message in which arguments are shown as addresses are, if they are some: the parser
// repeats what it does not understand. With another scheme than ours, those are some that have an @.
func withoutSecrets(text string, args []string) string {
	for _, arg := range args {
		at := anyScheme.FindStringIndex(arg)
		if at == nil || !schemeForm.MatchString(arg[at[0]:]) && !strings.Contains(arg, "@") {
			continue
		}
		a := newAddress(arg[at[0]:])
		quoted := strconv.Quote(a.reveal())
		for _, form := range []string{a.reveal(), quoted[1 : len(quoted)-1], printable.Line(a.reveal())} {
			text = strings.ReplaceAll(text, form, a.String())
		}
	}
	return text
}
