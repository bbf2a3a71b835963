package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// target is an address taken apart. go-redis reads the further hosts and the master's name from the
// query.
type target struct {
	scheme, user, path string
	hosts              []string
	query              url.Values
	cluster, sentinel  bool
	shown              string // without secrets
	options            any    // of go-redis, for the kind of client that is asked for
}

// like is an address of the same form, for advice.
func (t target) like(user string) string {
	switch {
	case t.scheme == "unix":
		return "unix://" + user + "@/path"
	case t.cluster:
		return t.scheme + "+cluster://" + user + "@host:port"
	case t.scheme == "":
		return "redis://" + user + "@host:port"
	}
	return t.scheme + "://" + user + "@host:port"
}

// What is known to be harmless. All else may be a part of a password, and neither it nor what is around it is shown.
var (
	schemeForm = regexp.MustCompile(`^(?:rediss?(?:\+cluster|\+sentinel)?|unix)://`)
	// otherScheme is one that nobody has as a password.
	otherScheme = regexp.MustCompile(`^(https?|tcp|tls|valkeys?)://`)

	anyScheme  = regexp.MustCompile(`[a-z+]+://`)
	userForm   = regexp.MustCompile(`^(?:(?:[\w.~!$&'()*+,;=:-]|%[0-9a-fA-F]{2})*@)?$`)
	hostForm   = regexp.MustCompile(`^(?:[\w.][\w.-]*|\[([0-9a-fA-F:.]+)(?:%25[\w.-]+)?\])(:[0-9]{1,5})?$`)
	dbForm     = regexp.MustCompile(`^[0-9]{0,9}$`)
	masterForm = regexp.MustCompile(`^[\w.-]+(?:/[0-9]{0,9})?$`)
	socketForm = regexp.MustCompile(`^/[\w./-]+$`)
)

// splitAddress refuses what is not known to be harmless. Its errors name the part and have nothing of it.
func splitAddress(address string) (t target, err error) {
	if strings.Contains(address, "://") && !schemeForm.MatchString(address) {
		if known := otherScheme.FindStringSubmatch(address); known != nil {
			return t, fmt.Errorf("scheme: it is %q, not redis, rediss or unix", known[1])
		}
		return t, errors.New("scheme: it is not redis, rediss or unix, or has something before it")
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "redis", address
	}
	kind := ""
	t.scheme, kind, _ = strings.Cut(scheme, "+")
	t.cluster, t.sentinel = kind == "cluster", kind == "sentinel"
	at := strings.LastIndex(rest, "@") + 1
	t.user = rest[:at]
	if !userForm.MatchString(t.user) {
		return t, errors.New("user or password: what is before the last @ has a character that belongs elsewhere; write @ as %40, / as %2F, " +
			"? as %3F, # as %23, % as %25, and a space as %20")
	}
	rest, query, options := strings.Cut(rest[at:], "?")
	if t.scheme == "unix" {
		t.path = rest
	} else {
		hosts, path, _ := strings.Cut(rest, "/")
		t.hosts, t.path = strings.Split(hosts, ","), path
	}
	t.cluster = t.cluster || len(t.hosts) > 1 && !t.sentinel
	if err := t.checkPlace(); err != nil {
		return t, err
	}
	t.shown = schemeForm.FindString(address)
	if at > 0 {
		t.shown += hidden + "@"
	}
	t.shown += rest
	if options {
		t.shown += "?"
	}
	t.complete()
	return t, t.addOptions(query)
}

// checkPlace refuses hosts and a path that are none.
func (t *target) checkPlace() error {
	for _, host := range t.hosts {
		if !isHost(host) {
			return errors.New("host: it must be a name, an IPv4 address or an [IPv6 address], with or without :port, a number from 1 to 65535; write @ behind a password, " +
				"and ? before options")
		}
	}
	switch {
	case t.scheme == "unix" && !socketForm.MatchString(t.path):
		return errors.New("path: a socket's path begins with / and has only letters, digits and ._-/; write ? before options")
	case t.sentinel && !masterForm.MatchString(t.path):
		return errors.New("path: the master's name is missing after the hosts, as in /mymaster, or has something else than letters, " +
			"digits and ._-; write ? before options")
	case t.cluster && t.path != "" && t.path != "0":
		return errors.New("path: a Cluster has only database 0")
	case t.scheme != "unix" && !t.sentinel && !dbForm.MatchString(t.path):
		return errors.New("path: it is not the number of a database; write ? before options")
	}
	return nil
}

func isHost(text string) bool {
	parts := hostForm.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	if port := strings.TrimPrefix(parts[2], ":"); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	if parts[1] == "" {
		return true
	}
	ip, err := netip.ParseAddr(parts[1])
	return err == nil && ip.Is6()
}

// complete fills in ports and moves the master's name to where go-redis looks for it.
func (t *target) complete() {
	port := ":6379"
	if t.sentinel {
		port = ":26379"
	}
	for i, host := range t.hosts {
		if hostForm.FindStringSubmatch(host)[2] == "" {
			t.hosts[i] += port
		}
	}
	t.query = url.Values{}
	if len(t.hosts) > 1 {
		t.query["addr"] = t.hosts[1:]
	}
	if t.sentinel {
		master, db, _ := strings.Cut(t.path, "/")
		t.query.Set("master_name", master)
		t.path = db
	}
	if t.cluster {
		t.path = ""
	}
}

// knownOptions are those of go-redis, of all three kinds of client: true for those that are shown, whose values are numbers,
// lengths of time, switches and hosts, and false for those with a text.
var knownOptions = shownAlso(map[string]bool{"client_name": false, "identitySuffix": false, "password": false, "username": false},
	"addr", "conn_max_idle_time", "conn_max_lifetime", "conn_max_lifetime_jitter", "context_timeout_enabled", "db", "dial_timeout",
	"dialer_retries", "dialer_retry_timeout", "disableIdentity", "failing_timeout_seconds", "idle_timeout", "max_active_conns",
	"max_concurrent_dials", "max_conn_age", "max_idle_conns", "max_redirects", "max_retries", "max_retry_backoff",
	"min_idle_conns", "min_retry_backoff", "pipeline_pool_size", "pipeline_read_buffer_size", "pipeline_write_buffer_size",
	"pool_fifo", "pool_size", "pool_timeout", "protocol", "read_only", "read_timeout", "replica_only", "route_by_latency",
	"route_by_latency_tolerance", "route_randomly", "skip_verify", "unstable_resp3", "use_disconnected_replicas", "write_timeout")

func shownAlso(set map[string]bool, names ...string) map[string]bool {
	for _, name := range names {
		set[name] = true
	}
	return set
}

// addOptions adds the options of the address to the query. Whether go-redis takes an option it is asked for
// each by itself, as its errors have values in them and cannot be shown.
func (t *target) addOptions(query string) (err error) {
	for i, option := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' }) {
		name, value, _ := strings.Cut(option, "=")
		plain, known := knownOptions[name]
		values, err := url.ParseQuery(option)
		if err == nil {
			_, err = t.parsed(values)
		}
		switch {
		case !known:
			return fmt.Errorf("option %d: no option has this name; if it is a part of a password, write & as %%26", i+1)
		case !t.sentinel && (name == "username" || name == "password"):
			return fmt.Errorf("option %s: it is for servers behind Sentinel; write user:password@ before the host", name)
		case err != nil, name == "addr" && !isHost(value):
			return fmt.Errorf("option %s: its value is none that it takes, or it is for another kind of server; write %% as %%25 and ; as %%3B", name)
		case !plain:
			option = name + "=" + hidden
		}
		if i > 0 {
			t.shown += "&"
		}
		t.shown += option
		t.query[name] = append(t.query[name], values[name]...)
	}
	if t.options, err = t.parsed(t.query); err != nil {
		return errors.New("options: two of them exclude each other, such as idle_timeout and conn_max_idle_time; leave one out")
	}
	return nil
}

// parsed is what go-redis makes of the target with these options.
func (t *target) parsed(query url.Values) (any, error) {
	text := t.scheme + "://" + t.user
	if t.scheme == "unix" {
		text += t.path
	} else {
		text += t.hosts[0] + "/" + t.path
	}
	text += "?" + query.Encode()
	switch {
	case t.sentinel:
		return redis.ParseFailoverURL(text)
	case t.cluster:
		return redis.ParseClusterURL(text)
	}
	return redis.ParseURL(text)
}
