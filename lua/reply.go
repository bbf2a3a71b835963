package lua

import (
	"errors"
	"fmt"
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

// Reply is what a script answered.
type Reply struct {
	Status Status
	values []any // behind the status
}

// NewReply makes the reply of one who speaks for several servers.
func NewReply(status Status, values ...any) Reply { return Reply{status, values} }

// parse never trusts the shape of a reply: it may come from a proxy or from something that is no
// Redis.
func parse(v any, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return Reply{}, fmt.Errorf("script replied %T %.100v, which is not a list that begins with a status", v, v)
	}
	status, ok := list[0].(int64)
	if !ok || status < int64(Late) || status > int64(Done) {
		return Reply{}, fmt.Errorf("script replied %.100v, which does not begin with a status", list)
	}
	return Reply{Status(status), list[1:]}, nil
}

// Value is the i-th value behind the status as go-redis has it, or nil.
func (r Reply) Value(i int) any {
	if i < len(r.values) {
		return r.values[i]
	}
	return nil
}

// Int is the i-th value behind the status, or 0 if that is no integer.
func (r Reply) Int(i int) int64 {
	if i < len(r.values) {
		if n, ok := r.values[i].(int64); ok {
			return n
		}
	}
	return 0
}

// Text is the i-th value behind the status, or "" if that is no string.
func (r Reply) Text(i int) string {
	if i < len(r.values) {
		if s, ok := r.values[i].(string); ok {
			return s
		}
	}
	return ""
}

// Texts are the strings from the i-th value on.
func (r Reply) Texts(i int) (list []string) {
	for ; i < len(r.values); i++ {
		list = append(list, r.Text(i))
	}
	return list
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
	if IsError(err, "NOPERM") {
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
	if redis.HasErrorPrefix(err, kind) {
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
