package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// counts are of a server, so far.
type counts struct{ scripts, commands float64 }

func serverCounts(ctx context.Context, rdb *redis.Client) (c counts, err error) {
	if c.scripts, err = scriptsRun(ctx, rdb); err != nil {
		return c, err
	}
	c.commands, err = commandsRun(ctx, rdb)
	return c, err
}

// scriptsRun is how many scripts the server has run so far.
func scriptsRun(ctx context.Context, rdb *redis.Client) (float64, error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	return callsOf(info, scriptCommands...), nil
}

var scriptCommands = []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall"}

// callsOf is how often some commands were called, by an answer to INFO commandstats. Those that
// scripts call count too.
func callsOf(info string, commands ...string) (total float64) {
	for _, command := range commands {
		_, calls, _ := strings.Cut(field(info, "cmdstat_"+command), "calls=")
		calls, _, _ = strings.Cut(calls, ",")
		n, _ := strconv.ParseFloat(calls, 64) // absent: none was run
		total += n
	}
	return total
}

// commandsRun is how many commands the servers have run so far, together; what a script calls
// counts too.
func commandsRun(ctx context.Context, rdbs ...*redis.Client) (total float64, err error) {
	for _, rdb := range rdbs {
		info, err := rdb.Info(ctx, "stats").Result()
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(field(info, "total_commands_processed"), 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// field is what stands behind "name:" in an answer to INFO; empty if nothing does.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// work is what servers have done so far.
type work struct{ commands, scripts, seconds float64 }

// workRun is how many commands and scripts the servers have run so far, and how much processor time
// they have used, together. (The microseconds of INFO commandstats would leave out what reading and
// writing cost, and count twice what scripts call.)
func workRun(ctx context.Context, rdbs ...*redis.Client) (total work, err error) {
	if total.commands, err = commandsRun(ctx, rdbs...); err != nil {
		return total, err
	}
	for _, rdb := range rdbs {
		scripts, err := scriptsRun(ctx, rdb)
		if err != nil {
			return total, err
		}
		total.scripts += scripts
		info, err := rdb.Info(ctx, "cpu").Result()
		if err != nil {
			return total, err
		}
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			n, err := strconv.ParseFloat(field(info, name), 64)
			if err != nil {
				return total, err
			}
			total.seconds += n
		}
	}
	return total, nil
}
