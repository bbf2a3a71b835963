package lua

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Status is the first value of every reply.
type Status int64

// The statuses that scripts reply with.
const (
	Done   Status = 1  // it was done, or had been done by an earlier attempt
	Denied Status = 0  // another owner holds the lock, or nobody does
	Gone   Status = -1 // the owner does not hold the lock
	// it was executed later than it might be, and did nothing; the server's time in microseconds
	// follows
	Late Status = -2
)

// Reply is what a script answered. Its methods decode the values behind the status: there is one
// for each script, or for several scripts whose replies are alike, and its comment names them. The
// header of the .lua file says what each value means.
//
// A reply may come from a proxy, or from something that is not Redis. So a method never fails: a
// value that is missing, or is of the wrong type, becomes the zero value.
type Reply struct {
	Status Status
	values []any // behind the status
	only   any   // the value behind the status, if there is one and values is nil
}

// NewReply makes the reply of one who speaks for several servers.
func NewReply(status Status, values ...any) Reply { return Reply{Status: status, values: values} }

// parse never trusts the shape of a reply: it may come from a proxy or from something that is no
// Redis.
func parse(v any, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	switch only := v.(type) { // what a script does not make a list of
	case string:
		if isDecimal(only) {
			return Reply{Status: Done, only: v}, nil
		}
	case int64:
		if only == int64(Done) {
			return Reply{Status: Done}, nil
		}
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return Reply{}, fmt.Errorf("script replied %T %.100v, which is not a list that begins with a status", v, v)
	}
	status, ok := list[0].(int64)
	if !ok || status < int64(Late) || status > int64(Done) {
		return Reply{}, fmt.Errorf("script replied %.100v, which does not begin with a status", list)
	}
	return Reply{Status: Status(status), values: list[1:]}, nil
}

func isDecimal(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// Unannounced returns why an announcement failed, or "" if it did not. It reads {1, error}, the
// reply of all scripts that free something and tell the waiters: release, leave, force,
// fair_release, sem_release, sem_set, election_announce, election_release and those of the
// read-write lock.
func (r Reply) Unannounced() string { return r.text(0) }

// LateTime returns the server's time in microseconds as decimal text. It reads {-2, time}, the
// reply [Late] of every script that has one.
func (r Reply) LateTime() string { return r.text(0) }

// Value returns the i-th value behind the status as go-redis has it, or nil.
func (r Reply) Value(i int) any {
	switch {
	case i < len(r.values):
		return r.values[i]
	case i == 0:
		return r.only
	}
	return nil
}

// number returns the i-th value behind the status, or 0 if that is not an integer.
func (r Reply) number(i int) int64 {
	n, _ := r.Value(i).(int64)
	return n
}

// text returns the i-th value behind the status, or "" if that is not a string.
func (r Reply) text(i int) string {
	s, _ := r.Value(i).(string)
	return s
}

// texts returns the strings from the i-th value on.
func (r Reply) texts(i int) (list []string) {
	for ; i < len(r.values); i++ {
		list = append(list, r.text(i))
	}
	return list
}

// token returns the fencing token in the i-th value, or 0 if that is not decimal text.
func (r Reply) token(i int) uint64 {
	n, _ := strconv.ParseUint(r.text(i), 10, 64)
	return n
}

// count returns the hold count in the i-th value, or 0 if that is not decimal text: the value of
// somebody else's field need not be a number.
func (r Reply) count(i int) int {
	n, _ := strconv.Atoi(r.text(i))
	return n
}

// Result is the outcome of one call of a batch.
type Result struct {
	Reply Reply
	Err   error
}

// interface check: what Run and RunAll send is a command of go-redis.
var _ redis.Cmder = (*command)(nil)

// IsDenied reports whether the server refused a command because of the user's permissions. Inside a
// script that has another text in each version, and before 7 none says which command it was.
func IsDenied(err error) bool {
	switch {
	case err == nil:
		return false
	case IsError(err, "NOPERM"):
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	for _, text := range []string{
		"ACL failure in script", "can't run this command", "can't access at least one of the keys",
		"can't publish to the channel",
	} {
		if strings.Contains(reply.Error(), text) {
			return true
		}
	}
	return false
}

// IsError reports whether err is the server's error of this kind ("OOM", "READONLY", ...). Redis
// before 7 wraps what a command in a script raised: "ERR Error running script (call to f_<sha>):
// @user_script:14: -READONLY ...", 6.0 with "@user_script: 14: " once more behind the first.
func IsError(err error, kind string) bool {
	switch {
	case err == nil:
		return false
	case redis.HasErrorPrefix(err, kind):
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	const script = "@user_script:"
	at := strings.LastIndex(reply.Error(), script)
	if at < 0 {
		return false
	}
	inner := strings.TrimLeft(reply.Error()[at+len(script):], " ")
	_, inner, _ = strings.Cut(inner, ": ") // behind the number of the line
	return strings.HasPrefix(strings.TrimPrefix(inner, "-"), kind)
}
