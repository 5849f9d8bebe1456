//! Answers as XML: `<ActionResponse><ActionResult>…</ActionResult>…`, lists as `<member>` elements.

use std::io;

use quick_xml::Writer;
use quick_xml::events::BytesText;
use serde_json::{Map, Value};

use super::fault::Fault;

const NAMESPACE: (&str, &str) = ("xmlns", "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/");

type Xml = Writer<Vec<u8>>;

/// The answer to `action`, under the id of its request.
pub fn answer(action: &str, result: &Map<String, Value>, request_id: &str) -> Vec<u8> {
    written(|xml| {
        let response = format!("{action}Response");
        let body = xml.create_element(response.as_str()).with_attribute(NAMESPACE);
        body.write_inner_content(|xml| {
            members(xml, &format!("{action}Result"), result)?;
            let metadata = xml.create_element("ResponseMetadata");
            metadata.write_inner_content(|xml| text(xml, "RequestId", request_id))?;
            Ok(())
        })?;
        Ok(())
    })
}

/// The refusal of the request of that id.
pub fn refusal(fault: &Fault, request_id: &str) -> Vec<u8> {
    written(|xml| {
        let body = xml.create_element("ErrorResponse").with_attribute(NAMESPACE);
        body.write_inner_content(|xml| {
            xml.create_element("Error").write_inner_content(|xml| {
                text(xml, "Type", fault.side())?;
                text(xml, "Code", &fault.code)?;
                text(xml, "Message", &fault.message)
            })?;
            text(xml, "RequestId", request_id)
        })?;
        Ok(())
    })
}

fn written(write: impl FnOnce(&mut Xml) -> io::Result<()>) -> Vec<u8> {
    let mut xml = Writer::new(Vec::new());
    // Memory takes whatever is written to it.
    write(&mut xml).ok();
    xml.into_inner()
}

fn value(xml: &mut Xml, name: &str, value: &Value) -> io::Result<()> {
    match value {
        Value::Null => Ok(()),
        Value::Bool(flag) => text(xml, name, if *flag { "true" } else { "false" }),
        Value::Number(number) => text(xml, name, &number.to_string()),
        Value::String(content) => text(xml, name, content),
        Value::Object(fields) => members(xml, name, fields),
        Value::Array(items) if items.is_empty() => empty(xml, name),
        Value::Array(items) => {
            xml.create_element(name).write_inner_content(|xml| {
                items.iter().try_for_each(|item| self::value(xml, "member", item))
            })?;
            Ok(())
        }
    }
}

fn members(xml: &mut Xml, name: &str, fields: &Map<String, Value>) -> io::Result<()> {
    if fields.is_empty() {
        return empty(xml, name);
    }
    xml.create_element(name)
        .write_inner_content(|xml| fields.iter().try_for_each(|(name, field)| value(xml, name, field)))?;
    Ok(())
}

fn empty(xml: &mut Xml, name: &str) -> io::Result<()> {
    xml.create_element(name).write_empty()?;
    Ok(())
}

fn text(xml: &mut Xml, name: &str, content: &str) -> io::Result<()> {
    let content: String = content.chars().map(|c| if is_xml(c) { c } else { '\u{fffd}' }).collect();
    xml.create_element(name).write_text_content(BytesText::new(&content))?;
    Ok(())
}

/// Whether XML 1.0 has a way to write this character at all (section 2.2). Tabs and line feeds come out of a
/// parser as they are; a carriage return would come out as a line feed.
fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::StatusCode;
    use serde_json::json;

    fn of(result: Value) -> String {
        let Value::Object(result) = result else { panic!("an object") };
        String::from_utf8(answer("DescribeX", &result, "42")).unwrap()
    }

    #[test]
    fn an_answer_has_the_form_that_clients_read() {
        assert_eq!(
            of(json!({
                "Things": [{"Name": "a", "Port": 6081, "Enabled": true, "Zones": [], "Inner": {"Code": "x"}}],
                "Absent": null,
            })),
            "<DescribeXResponse xmlns=\"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/\">\
             <DescribeXResult><Things><member><Enabled>true</Enabled><Inner><Code>x</Code></Inner>\
             <Name>a</Name><Port>6081</Port><Zones/></member></Things></DescribeXResult>\
             <ResponseMetadata><RequestId>42</RequestId></ResponseMetadata></DescribeXResponse>"
        );
        assert!(of(json!({})).contains("<DescribeXResult/><ResponseMetadata>"));
    }

    #[test]
    fn a_refusal_has_the_form_that_clients_read() {
        let fault = Fault::new("TargetGroupNotFound", "One or more target groups not found");
        assert_eq!(
            String::from_utf8(refusal(&fault, "42")).unwrap(),
            "<ErrorResponse xmlns=\"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/\"><Error>\
             <Type>Sender</Type><Code>TargetGroupNotFound</Code>\
             <Message>One or more target groups not found</Message></Error><RequestId>42</RequestId></ErrorResponse>"
        );
        let ours = fault.status(StatusCode::INTERNAL_SERVER_ERROR);
        assert!(String::from_utf8(refusal(&ours, "42")).unwrap().contains("<Type>Receiver</Type>"));
    }

    #[test]
    fn text_cannot_leave_its_element() {
        let xml = of(json!({"Value": "</Value><a b=\"c\" d='e'>&amp;]]>"}));
        assert!(
            xml.contains(
                "<Value>&lt;/Value&gt;&lt;a b=&quot;c&quot; d=&apos;e&apos;&gt;&amp;amp;]]&gt;</Value>"
            ),
            "{xml}"
        );
    }

    #[test]
    fn what_xml_cannot_write_is_replaced() {
        assert!(
            of(json!({"Value": "a\u{0}\u{1b}\t\n\r\u{fffe}é\u{1f600}"}))
                .contains("<Value>a\u{fffd}\u{fffd}\t\n\u{fffd}\u{fffd}é\u{1f600}</Value>")
        );
    }
}
