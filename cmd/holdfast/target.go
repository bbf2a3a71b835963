package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

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
	user := rest[:strings.LastIndex(rest, "@")+1]
	if _, err := url.PathUnescape(user); err != nil {
		return a, errors.New("a % before the last @ has no two hexadecimal digits behind it; write % as %25")
	}
	if err := checkOptions(query, strings.HasSuffix(scheme, "+sentinel")); err != nil {
		return a, err
	}
	if a.query, err = url.ParseQuery(query); err != nil {
		return a, errors.New("the options have a % without two hexadecimal digits behind it, or a semicolon; write % as %25 and ; as %3B")
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
		return a, errors.New("no such scheme")
	}
	a.user, rest = user, rest[len(user):]
	hosts, path, _ := strings.Cut(rest, "/")
	a.hosts, a.path = strings.Split(hosts, ","), path
	a.cluster = a.cluster || len(a.hosts) > 1 && !a.sentinel
	return a, a.complete()
}

// checkOptions refuses what go-redis would repeat in its errors: a name or a value that may be a part of a
// password. It says which option it is by its number.
func checkOptions(query string, sentinel bool) error {
	if query == "" {
		return nil
	}
	for i, option := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case secretOptions[name] && !sentinel:
			return fmt.Errorf("%s is an option for servers behind Sentinel; write user:password@ before the host", name)
		case secretOptions[name], name == "client_name", name == "identitySuffix":
		case !plainOptions[name]:
			return fmt.Errorf("option %d after the question mark has a name that no option has; if it is a part of a "+
				"password, write & as %%26", i+1)
		case !onlyOf(value, optionLetters):
			return fmt.Errorf("%s has a character in it that no value of it has", name)
		}
	}
	return nil
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
		_, number, ok := strings.Cut(host[strings.LastIndex(host, "]")+1:], ":")
		switch {
		case !ok:
			a.hosts[i] += port
		case !onlyOf(number, "0123456789"):
			return errors.New("invalid port: it is no number")
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
