package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	redisEnv     = "HOLDFAST_REDIS"
	redisDefault = "redis://127.0.0.1:6379/0"
	// redisForms is the part of the help that says what --redis takes.
	redisForms = `Redis servers:
  redis://[user:password@]host:port[/db]        one server; rediss:// for TLS, unix:///path for a socket
  redis+cluster://host:port,host:port           a Cluster, by some of its nodes (redis://host,host is the same)
  redis+sentinel://host:port,host:port/master   behind Sentinel; /master/db for another database
  Options of go-redis may follow, as in ?read_timeout=1s. rediss:// takes the certificates of --tls-ca, --tls-cert and
  --tls-key; rediss+cluster and rediss+sentinel are TLS too.`
)

// connect makes a client from the value of --redis, without certificates of its own. Nothing is sent.
// Errors do not show passwords.
func connect(address string) (redis.UniversalClient, error) { return open(address, nil) }

// open is connect with the certificates of [tlsFiles], which may be nil.
func open(address string, files *tls.Config) (redis.UniversalClient, error) {
	a, err := splitAddress(address)
	if err != nil {
		return nil, badAddress(address, err)
	}
	var rdb redis.UniversalClient
	switch {
	case a.sentinel:
		var opts *redis.FailoverOptions
		if opts, err = redis.ParseFailoverURL(a.url()); err != nil {
			break
		}
		switch { // of which NewFailoverClient panics
		case opts.RouteByLatency:
			err = errors.New("route_by_latency is for reading from replicas, and locks are asked of the master alone: leave it out")
		case opts.RouteRandomly:
			err = errors.New("route_randomly is for reading from replicas, and locks are asked of the master alone: leave it out")
		default:
			if err = adopt(opts.TLSConfig, files, address); err == nil {
				rdb = redis.NewFailoverClient(opts)
			}
		}
	case a.cluster:
		var opts *redis.ClusterOptions
		if opts, err = redis.ParseClusterURL(a.url()); err == nil {
			if err = adopt(opts.TLSConfig, files, address); err == nil {
				rdb = redis.NewClusterClient(opts)
			}
		}
	default:
		var opts *redis.Options
		if opts, err = redis.ParseURL(a.url()); err == nil {
			if err = adopt(opts.TLSConfig, files, address); err == nil {
				rdb = redis.NewClient(opts)
			}
		}
	}
	if err != nil {
		return nil, badAddress(address, err)
	}
	return rdb, nil
}

func badAddress(address string, err error) error {
	var f failure // which says it all
	if errors.As(err, &f) {
		return err
	}
	var u *url.Error // repeats the whole URL, password and all
	if errors.As(err, &u) {
		err = u.Err
	}
	return fail(exitUsage, "--redis (or %s) is %q: %w; use redis://host:port, or see %q", redisEnv,
		hidePassword(address), err,
		"holdfast run --help")
}

// hidePassword is for messages.
func hidePassword(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "***" + rest[at:]
	}
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

// target is an address taken apart. go-redis reads the further hosts and the master's name from the
// query.
type target struct {
	scheme, user, path string
	hosts              []string
	query              url.Values
	cluster, sentinel  bool
}

func splitAddress(address string) (a target, err error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "redis", address
	}
	if at := strings.LastIndex(rest, "@"); scheme != "unix" && at >= 0 && strings.ContainsAny(rest[:at], "@/?#") {
		// Else a part of a password would be taken for something else, and shown.
		return a, errors.New("the part before the last @ has one of @/?# in it; write @ as %40, / as %2F, ? as %3F and # as %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if a.query, err = url.ParseQuery(query); err != nil {
		return a, fmt.Errorf("options after the question mark: %w", err)
	}
	if scheme == "unix" {
		a.scheme, a.path = scheme, rest
		return a, nil
	}
	a.scheme, a.cluster, a.sentinel = strings.TrimSuffix(scheme, "+cluster"), strings.HasSuffix(scheme, "+cluster"),
		false
	if plain, ok := strings.CutSuffix(a.scheme, "+sentinel"); ok {
		a.scheme, a.sentinel = plain, true
	}
	if a.scheme != "redis" && a.scheme != "rediss" {
		return a, fmt.Errorf("no such scheme: %s", scheme)
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		a.user, rest = rest[:at+1], rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	a.hosts, a.path = strings.Split(hosts, ","), path
	a.cluster = a.cluster || len(a.hosts) > 1 && !a.sentinel
	return a, a.complete()
}

// complete fills in ports and moves the master's name to where go-redis looks for it.
func (a *target) complete() error {
	port := ":6379"
	if a.sentinel {
		port = ":26379"
	}
	for i, host := range a.hosts {
		if host == "" {
			return errors.New("a host is empty")
		}
		if !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
			a.hosts[i] += port
		}
	}
	for _, host := range a.hosts[1:] {
		a.query.Add("addr", host)
	}
	switch {
	case a.sentinel:
		master, db, _ := strings.Cut(a.path, "/")
		if master == "" {
			return errors.New("the master's name is missing after the hosts, as in /mymaster")
		}
		a.query.Set("master_name", master)
		a.path = db
	case a.cluster:
		if a.path != "" && a.path != "0" {
			return fmt.Errorf("a Cluster has only database 0, not %s", a.path)
		}
		a.path = ""
	}
	return nil
}

// url is what go-redis parses.
func (a *target) url() string {
	s := a.scheme + "://"
	if a.scheme == "unix" {
		s += a.path
	} else {
		s += a.user + a.hosts[0] + "/" + a.path
	}
	if len(a.query) > 0 {
		s += "?" + a.query.Encode()
	}
	return s
}
