package main

import (
	"crypto/tls"
	"errors"

	"github.com/redis/go-redis/v9"
)

// connect makes a client from the text of --redis, without certificates of its own. Nothing is sent.
func connect(text string) (redis.UniversalClient, error) { return newAddress(text).open(nil) }

// open makes a client, with the certificates of [tlsFiles], which may be nil. Nothing is sent.
func (a address) open(files *tls.Config) (redis.UniversalClient, error) {
	t, err := splitAddress(a.reveal())
	if err != nil {
		return nil, a.bad(err)
	}
	var rdb redis.UniversalClient
	switch opts := t.options.(type) {
	case *redis.FailoverOptions:
		switch { // of which NewFailoverClient panics
		case opts.RouteByLatency:
			err = errors.New("option route_by_latency: it is for reading from replicas, and locks are asked of the master alone: leave it out")
		case opts.RouteRandomly:
			err = errors.New("option route_randomly: it is for reading from replicas, and locks are asked of the master alone: leave it out")
		default:
			if err = adopt(opts.TLSConfig, files, a); err == nil {
				rdb = redis.NewFailoverClient(opts)
			}
		}
	case *redis.ClusterOptions:
		if err = adopt(opts.TLSConfig, files, a); err == nil {
			rdb = redis.NewClusterClient(opts)
		}
	case *redis.Options:
		if err = adopt(opts.TLSConfig, files, a); err == nil {
			rdb = redis.NewClient(opts)
		}
	}
	if err != nil {
		return nil, a.bad(err)
	}
	return rdb, nil
}

// bad is the error of an address that cannot be used.
func (a address) bad(err error) error {
	var f failure // which says it all
	if errors.As(err, &f) {
		return err
	}
	return fail(exitUsage, "--redis (or %s) is %q: %w; use %s, or see %q", redisEnv, a, harmless{err}, a.example(),
		"holdfast run --help")
}
