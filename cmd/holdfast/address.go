package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

const (
	redisEnv     = "HOLDFAST_REDIS"
	redisDefault = "redis://127.0.0.1:6379/0"
	// redisForms is the part of the help that says what --redis takes.
	redisForms = `Redis servers:
  redis://[user:password@]host:port[/db]        one server; rediss:// for TLS, unix:///path for a socket
  redis+cluster://host:port,host:port           a Cluster, by some of its nodes (redis://host,host is the same)
  redis+sentinel://host:port,host:port/master   behind Sentinel; /master/db for another database. The data servers' user and
                                                password follow, as in /master?username=u&password=p; those before the
                                                hosts, as in redis+sentinel://u:p@host, are the Sentinels'
  Options of go-redis may follow, as in ?read_timeout=1s. rediss:// takes the certificates of --tls-ca, --tls-cert and
  --tls-key; rediss+cluster and rediss+sentinel are TLS too.`
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

var schemeForm = regexp.MustCompile(`^[a-z]+(\+[a-z]+)?$`)

// String shows what can be no secret, however wrong the address is: the scheme, the hosts with ports
// that are numbers, the path, and the options that are listed below.
func (a address) String() string {
	scheme, rest, ok := strings.Cut(a.reveal(), "://")
	switch {
	case !ok:
		scheme, rest = "", scheme
	case !schemeForm.MatchString(scheme):
		return hidden
	default:
		scheme += "://"
	}
	at, asked := strings.LastIndex(rest, "@"), strings.Index(rest, "?")
	if asked >= 0 && asked < at { // either is a part of a password
		return scheme + hidden
	}
	user := ""
	if at >= 0 {
		user, rest = hidden+"@", rest[at+1:]
	}
	rest, query, options := strings.Cut(rest, "?")
	rest, _, fragment := strings.Cut(rest, "#")
	if scheme != "unix://" {
		rest = shownHosts(rest)
	}
	if fragment {
		rest += "#" + hidden
	}
	if options {
		rest += "?" + shownOptions(query)
	}
	return printable.Line(scheme + user + rest)
}

// shownHosts hides ports that are no numbers: somebody may have left out what stands behind a password.
func shownHosts(rest string) string {
	hosts, path, slash := strings.Cut(rest, "/")
	all := strings.Split(hosts, ",")
	for i, host := range all {
		from := strings.LastIndex(host, "]") + 1
		if name, port, ok := strings.Cut(host[from:], ":"); ok && !onlyOf(port, "0123456789") {
			all[i] = host[:from] + name + ":" + hidden
		}
	}
	if hosts = strings.Join(all, ","); slash {
		hosts += "/" + path
	}
	return hosts
}

// shownOptions shows those that are known, in the form that they have.
func shownOptions(query string) string {
	all := strings.Split(query, "&")
	for i, option := range all {
		switch name, value, _ := strings.Cut(option, "="); {
		case secretOptions[name]:
			all[i] = name + "=" + hidden
		case !plainOptions[name] || !onlyOf(value, optionLetters):
			all[i] = hidden
		}
	}
	return strings.Join(all, "&")
}

func onlyOf(text, letters string) bool { return strings.Trim(text, letters) == "" }

const optionLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"

// secretOptions are the options of go-redis that are not shown.
var secretOptions = map[string]bool{"username": true, "password": true}

// plainOptions are the others: numbers, lengths of time, names. All three kinds of client together.
var plainOptions = setOf("addr", "client_name", "conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter",
	"context_timeout_enabled", "db", "dial_timeout", "dialer_retries", "dialer_retry_timeout", "disableIdentity",
	"failing_timeout_seconds", "identitySuffix", "idle_timeout", "master_name", "max_active_conns", "max_concurrent_dials",
	"max_conn_age", "max_idle_conns", "max_redirects", "max_retries", "max_retry_backoff", "min_idle_conns",
	"min_retry_backoff", "pipeline_pool_size", "pipeline_read_buffer_size", "pipeline_write_buffer_size", "pool_fifo",
	"pool_size", "pool_timeout", "protocol", "read_only", "read_timeout", "replica_only", "route_by_latency",
	"route_by_latency_tolerance", "route_randomly", "skip_verify", "unstable_resp3", "use_disconnected_replicas",
	"write_timeout")

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
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

// Type is what the help shows for the value.
func (f *addressFlag) Type() string { return "URL" }

func shownAddresses(all []address) string {
	shown := make([]string, len(all))
	for i, a := range all {
		shown[i] = a.String()
	}
	return strings.Join(shown, ", ")
}

// withoutSecrets is a message in which arguments are shown as addresses are, if they are some: one may
// stand where a name belongs.
func withoutSecrets(text string, args []string) string {
	for _, arg := range args {
		at := strings.Index(arg, "://")
		if at < 0 {
			continue
		}
		at = strings.LastIndexFunc(arg[:at], func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz+", r) }) + 1
		if a := newAddress(arg[at:]); a.secret() {
			quoted := strconv.Quote(a.reveal())
			for _, form := range []string{a.reveal(), quoted[1 : len(quoted)-1], printable.Line(a.reveal())} {
				text = strings.ReplaceAll(text, form, a.String())
			}
		}
	}
	return text
}
