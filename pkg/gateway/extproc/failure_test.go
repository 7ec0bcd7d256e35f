package extproc

import (
	"strings"
	"testing"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestReadFailure(t *testing.T) {
	for details, want := range map[string]reason.ID{
		"":             0,
		"via_upstream": 0,
		"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}": reason.UpstreamUnreachable,
		"upstream_reset_before_response_started{local_connection_failure}":                                            reason.UpstreamUnreachable,
		"upstream_reset_before_response_started{overflow}":                                                            reason.UpstreamUnreachable,
		"no_healthy_upstream": reason.UpstreamUnreachable,
		"upstream_reset_before_response_started{connection_termination}": reason.UpstreamBroken,
		"upstream_reset_before_response_started{remote_reset}":           reason.UpstreamBroken,
		"upstream_response_timeout":                                      0, // the gateway's own bound, and its own answer
	} {
		if got := readFailure(details); got != want {
			t.Errorf("%q is %v, want %v", details, got, want)
		}
	}
}

// A gateway that gave up, and says so, has its answer replaced by ours; its books fall at once, and its access-log entry is
// none of an open exchange.
func TestNobodyAnswered(t *testing.T) {
	for _, c := range []struct {
		name, details, at, code string
		status                  int32
		says                    string
	}{
		{"all of the list refused", "upstream_reset_before_response_started{remote_connection_failure}", "10.0.0.2:8000", "upstream_unreachable", 503, "2 of 2 endpoints tried"},
		{"the gateway does not retry", "upstream_reset_before_response_started{remote_connection_failure}", "10.0.0.1:8000", "upstream_unreachable", 503, "1 of 2 endpoints tried"},
		{"the last it tried was not on the list", "upstream_reset_before_response_started{remote_connection_failure}", "10.9.9.9:8000", "upstream_unreachable", 503, "2 of 2 endpoints tried"},
		{"one broke off", "upstream_reset_before_response_started{connection_termination}", "10.0.0.1:8000", "upstream_broken", 502, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{}).open(TokenFallbacks, TokenLog)
			g.headers(duplex, none)
			g.body(`{"model":"m"}`, true)
			id := inMetadata(g.answerTo().metadata, nsOwn, keyDecisionID)
			g.send(&extprocpb.ProcessingRequest{
				Request: &extprocpb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocpb.HttpHeaders{
					Headers: headerMap(":status", "503", "content-type", "text/plain", "content-length", "98")}},
				MetadataContext: filterMetadata(nsLoadBalancer, exchange.HeaderServed, c.at),
				Attributes:      map[string]*structpb.Struct{nsAttributes: {Fields: map[string]*structpb.Value{keyDetails: structpb.NewStringValue(c.details)}}},
			})
			m := g.recv()
			reply := m.GetImmediateResponse()
			if reply.GetDetails() != c.code || int32(reply.GetStatus().GetCode()) != c.status || !strings.Contains(string(reply.GetBody()), c.says) {
				t.Errorf("got %v", m)
			}
			if inMetadata(m.GetDynamicMetadata(), nsOwn, keyRefused) != c.code {
				t.Error("its access-log entry will be taken for the end of a request")
			}
			if !g.ends() {
				t.Error("the stream did not end with OK")
			}
			if o := g.outcome(); o.EndingCode != c.code || o.Served.Incarnation != 0 || o.TTFT != -1 {
				t.Errorf("settled as %+v", o)
			}
			g.untilClosed()
			g.zero()
			if doc, _ := g.scheduler.Decision(id); doc.Record.Refused == nil || doc.Record.Refused.Code != c.code {
				t.Errorf("the record says %+v", doc.Record.Refused)
			}
		})
	}
}
